// Search of pages that are opened from disk. Browsers start no worker from a file, so a hidden
// frame of the page runs its script.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #waiting = [];

    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html>";
      this.frame.addEventListener("load", () => this.#start(url), { once: true });
      document.body.append(this.frame);
    }

    async #start(url) {
      const inside = this.frame.contentWindow;
      const load = (source) =>
        new Promise((done, failed) => {
          const script = inside.document.createElement("script");
          Object.assign(script, { src: source, onload: done, onerror: failed });
          inside.document.head.append(script);
        });
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      await load(url);
      this.inside = inside;
      this.#waiting.splice(0).forEach((data) => this.postMessage(data));
    }

    postMessage(data) {
      if (this.inside) this.inside.dispatchEvent(new MessageEvent("message", { data }));
      else this.#waiting.push(data);
    }
  };
}
