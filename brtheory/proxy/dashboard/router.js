// The form that switches the router, built from the catalogue the proxy gives.

class RouterForm {
  constructor(ask) {
    this.ask = ask;
    this.catalogue = new Map();
    byId("router-name").addEventListener("change", () => { this.touched = true; this.choose(); });
    byId("router-form").addEventListener("submit", (event) => this.submit(event));
  }

  async load() {
    const routers = await this.ask("admin/routers");
    this.catalogue = new Map(routers.map((one) => [one.name, one]));
    const groups = ["pooled", "immediate"].map((family) => {
      const group = element("optgroup");
      group.label = family === "pooled" ? "Late binding" : "At arrival";
      group.append(...routers.filter((one) => one.family === family).map((one) => element("option", "", one.name)));
      return group;
    });
    byId("router-name").replaceChildren(...groups);
    byId("router-switch").disabled = false;
    this.touched = false;
    this.choose();
  }

  // Follow what runs until somebody has chosen something else.
  running(name) {
    if (this.touched || !this.catalogue.has(name) || byId("router-name").value === name) return;
    byId("router-name").value = name;
    this.choose();
  }

  choose() {
    const chosen = this.catalogue.get(byId("router-name").value);
    if (!chosen) return;
    byId("router-summary").textContent = chosen.summary;
    const fields = Object.entries(chosen.params.properties || {}).map(([name, rule]) => this.field(name, rule));
    if (chosen.needs_predictor) fields.push(this.field("predictor", { enum: ["survival", "exact-match"], default: "survival" }));
    byId("router-params").replaceChildren(...fields);
    byId("router-more").hidden = !fields.length;
    byId("router-result").textContent = "";
  }

  field(name, rule) {
    const label = element("label", "field"), kinds = rule.anyOf || [rule];
    const kind = kinds.find((one) => one.type !== "null") || rule;
    label.append(element("span", "", name.replaceAll("_", " ")));
    const choices = rule.enum || kind.enum;
    const input = element(choices ? "select" : "input");
    if (choices) input.append(...choices.map((one) => element("option", "", one)));
    else {
      input.type = "number";
      input.step = kind.type === "integer" ? "1" : "any";
      for (const [bound, attribute] of [["minimum", "min"], ["maximum", "max"], ["exclusiveMinimum", "min"]]) {
        if (kind[bound] !== undefined) input.setAttribute(attribute, kind[bound]);
      }
      input.placeholder = rule.default === null || rule.default === undefined ? "by itself" : rule.default;
    }
    if (choices) input.value = rule.default;
    input.name = name;
    input.dataset.kind = choices ? "text" : "number";
    label.append(input);
    return label;
  }

  async submit(event) {
    event.preventDefault();
    const name = byId("router-name").value, result = byId("router-result"), button = byId("router-switch");
    const wanted = { name, params: {} };
    for (const input of byId("router-params").querySelectorAll("select, input")) {
      if (input.value === "") continue;
      const value = input.dataset.kind === "number" ? Number(input.value) : input.value;
      if (input.name === "predictor") wanted.predictor = value;
      else wanted.params[input.name] = value;
    }
    button.disabled = true;
    result.classList.remove("bad");
    result.textContent = `Switching to ${name} …`;
    try {
      const now = await this.ask("admin/router", wanted);
      result.textContent = `${now.name} decides from now on. Bound requests stay where they are.`;
      this.touched = false;
    } catch (error) {
      result.classList.add("bad");
      result.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  }
}
