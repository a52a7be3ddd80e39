// Browsers start no Worker from file://. Where the site is opened from a disk, this class stands in for
// Worker, so that the search box works: it runs the worker's script in a hidden frame of the page.
// The name of this file tells the plugin `offline` not to load a script from elsewhere.
class FrameWorker extends EventTarget {
  constructor(address) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inside = frame.contentWindow;
    this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.ready = this.run(new URL(address, document.baseURI).href);
  }

  run(address) {
    const script = this.inside.document.createElement("script");
    script.src = address;
    return new Promise((resolve, reject) => {
      script.onload = resolve;
      script.onerror = () => reject(new Error(`cannot load ${address}`));
      this.inside.document.head.append(script);
    });
  }

  async postMessage(data) {
    await this.ready;
    this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
  }

  terminate() {
    this.inside.frameElement.remove();
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker;
