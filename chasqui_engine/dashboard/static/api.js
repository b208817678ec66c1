// Requests to the server: queries, actions and streams. Addresses are relative to the page's <base>.

let me = null;

// With a connection: what the user may do there.
export async function whoAmI(connection) {
  me = me || (await get("api/me", { connection }));
  return me;
}

export function query(path, params) {
  const given = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export async function get(path, params = {}) {
  return answered(await fetch(query(path, params), { headers: { accept: "application/json" } }));
}

// Responses come in any order: of several requests in flight, all but the last get null.
export function asker(path) {
  let last = 0;
  let under = 0;
  async function ask(params) {
    const mine = ++last;
    under += 1;
    try {
      const answer = await get(path, params);
      return mine === last ? answer : null;
    } catch (error) {
      if (mine === last) throw error;
      return null;
    } finally {
      under -= 1;
    }
  }
  return { ask, asking: () => under > 0 };
}

export async function post(path, params, body = {}) {
  const headers = { "content-type": "application/json", "x-chasqui-csrf": (await whoAmI()).csrf };
  return answered(await fetch(query(path, params), { method: "POST", headers, body: JSON.stringify(body) }));
}

async function answered(response) {
  let data = null;
  try {
    data = await response.json();
  } catch {
    // a proxy's page, perhaps
  }
  if (!response.ok || data === null) {
    const message = data && data.error ? data.error.message : `The server answered ${response.status}.`;
    throw Object.assign(new Error(message), { status: response.status });
  }
  return data;
}

// Names are quoted in the address. "." and ".." would count as folders even so, and go into the query.
// So does a name with a line break, which no route matches.
export function pageOf(connection, queue, jobId) {
  const parts = [connection, queue, ...(jobId === undefined ? [] : [jobId])];
  try {
    if (parts.some((part) => /^\.{1,2}$|\n/.test(part))) {
      const path = jobId === undefined ? "queues/-/-" : "queues/-/-/jobs/-";
      return query(path, { connection, queue, job: jobId });
    }
    const [at, name, job] = parts.map(encodeURIComponent);
    return `queues/${at}/${name}${jobId === undefined ? "" : `/jobs/${job}`}`;
  } catch {
    return null; // no valid Unicode: there is no address for it
  }
}

export function here() {
  const root = new URL(document.baseURI).pathname;
  const [, connection, queue, , job] = location.pathname.slice(root.length).split("/").map(decodeURIComponent);
  const asked = new URLSearchParams(location.search);
  return {
    connection: asked.get("connection") ?? connection,
    queue: asked.get("queue") ?? queue,
    job: asked.get("job") ?? job,
  };
}

// Calls `show` with every view. A hidden page does not watch; where the stream is refused, the page polls.
export function watch(livePath, path, params, show, tell) {
  let source = null;
  let timer = 0;

  async function poll() {
    try {
      show(await get(path, params()));
      tell("poll", "Updating");
    } catch (error) {
      tell("off", error.message);
    }
    timer = setTimeout(poll, 5000);
  }

  function open() {
    close();
    source = new EventSource(query(livePath, params()));
    source.addEventListener("view", (message) => {
      tell("on", "Live");
      show(JSON.parse(message.data));
    });
    source.addEventListener("problem", (message) => tell("off", JSON.parse(message.data).message));
    source.addEventListener("error", () => {
      if (source && source.readyState === EventSource.CLOSED) {
        close();
        poll();
      } else tell("off", "Reconnecting");
    });
  }

  function close() {
    clearTimeout(timer);
    if (source) source.close();
    source = null;
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => event.persisted && open());
  open();
  return open;
}
