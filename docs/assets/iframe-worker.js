/* Search where the site is opened from disk: browsers start no worker from file:, so the theme's
   search worker runs in a hidden frame instead. The theme recognises the name IFrameWorker, and
   the offline plugin takes this file for the one it would load from elsewhere. */
(() => {
  if (location.protocol !== "file:") {
    return;
  }

  /* What a worker's script expects around it, made of a frame's window. */
  const surroundings = () => {
    self.postMessage = (data) => parent.postMessage(data, "*");
    self.importScripts = (...addresses) =>
      addresses.reduce(
        (loaded, address) =>
          loaded.then(
            () =>
              new Promise((resolve, reject) => {
                const script = document.createElement("script");
                script.src = address;
                script.onload = resolve;
                script.onerror = reject;
                document.body.appendChild(script);
              }),
          ),
        Promise.resolve(),
      );
  };

  class IFrameWorker extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      const setUp = `<script>(${surroundings})()<\/script>`;
      this.frame.srcdoc = `<body>${setUp}<script src="${address}"><\/script></body>`;
      this.ready = new Promise((resolve) => this.frame.addEventListener("load", resolve));
      document.body.appendChild(this.frame);
      window.addEventListener("message", (event) => {
        if (event.source === this.frame.contentWindow) {
          const answer = new MessageEvent("message", { data: event.data });
          this.dispatchEvent(answer);
          this.onmessage?.(answer);
        }
      });
    }

    postMessage(data) {
      /* The frame's own postMessage has been replaced: it answers. */
      this.ready.then(() => window.postMessage.call(this.frame.contentWindow, data, "*"));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
})();
