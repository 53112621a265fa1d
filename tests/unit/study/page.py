"""A page as a reader's browser takes it apart."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "input"}
LOADING = {"src", "srcset", "poster", "data", "background", "action"}


class Page(HTMLParser):
    """Elements that never close, references that load, identifiers, labels, text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.mismatched, self.loads, self.ids, self.svgs = [], [], [], [], []
        self.svg_text, self.text = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.loads += [v for k, v in attrs if k in LOADING]
        if tag in ("link", "script", "iframe", "use", "image"):
            self.loads += [v for k, v in attrs if k.endswith("href") and not v.startswith("#")]
        self.ids += [values["id"]] if "id" in values else []
        if tag == "svg":
            self.svgs.append(values)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.mismatched.append(tag)

    def handle_data(self, data):
        self.text.append(data)
        if "svg" in self.open and self.open[-1] == "text":
            self.svg_text.append(data.strip())
