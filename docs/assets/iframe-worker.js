/* Search in pages that were opened as files: a browser starts no worker from there, a frame does the same. */
class IFrameWorker extends EventTarget {
  constructor(url) {
    super()
    this.onmessage = null
    this.frame = document.createElement("iframe")
    this.frame.hidden = true
    document.body.append(this.frame)
    const page = this.frame.contentDocument
    page.open()
    page.write(
      "<!doctype html><body><script>" +
        "postMessage = data => parent.postMessage(data, '*');" +
        "importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise(done => {" +
        "const script = document.createElement('script'); script.src = url; script.onload = done;" +
        "document.body.append(script) })), Promise.resolve())" +
        "</" + "script></body>"
    )
    page.close()
    this.ready = new Promise(resolve => {
      const script = page.createElement("script")
      script.src = url
      script.onload = resolve
      page.body.append(script)
    })
    this.listener = event => {
      if (event.source !== this.frame.contentWindow) return
      const message = new MessageEvent("message", { data: event.data })
      this.dispatchEvent(message)
      if (this.onmessage) this.onmessage(message)
    }
    addEventListener("message", this.listener)
  }

  postMessage(data) {
    this.ready.then(() => {
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }))
    })
  }

  terminate() {
    removeEventListener("message", this.listener)
    this.frame.remove()
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker
  window.Worker = IFrameWorker
}
