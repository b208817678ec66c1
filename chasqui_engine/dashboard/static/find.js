// The field in the head of each page that leads to a job by its id, whatever queue it is in.
import { get, pageOf } from "./api.js";
import { h, toast } from "./dom.js";

export function listenForIds(form, at) {
  const field = form.elements.id;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const id = field.value.trim();
    if (!id || field.readOnly) return;
    field.readOnly = true;
    try {
      show(id, await get("api/jobs/find", { id, connection: at.connection, queue: at.queue }));
    } catch (error) {
      toast(error.message, "bad");
    }
    field.readOnly = false;
  });
}

function show(id, { found, complete }) {
  const places = found.map((one) => ({ ...one, href: pageOf(one.connection, one.queue, id) }));
  if (places.length === 1 && complete && places[0].href !== null) location.assign(places[0].href);
  else if (places.length) choose(id, places, complete);
  else if (complete) toast(`No queue knows a job “${id}”. It never existed, was forgotten, or is deep in a long queue.`);
  else toast(`“${id}” was not found, and not all queues answered in time. Search from the page of its queue.`, "bad");
}

function choose(id, places, complete) {
  const close = h("button", { type: "button", class: "button", text: "Close" });
  const links = places.map((one) =>
    h(
      "li",
      {},
      h("a", { href: one.href, text: `${one.connection} / ${one.queue}` }),
      h("span", { class: "muted", text: ` · ${one.name || "no name"}, ${one.state}` }),
    ),
  );
  const dialog = h(
    "dialog",
    { class: "ask", "aria-label": "Jobs found" },
    h("h2", { text: `Jobs with the id “${id}”` }),
    complete ? null : h("p", { text: "Not all queues answered in time: there may be more." }),
    h("ul", {}, links),
    h("div", { class: "row end" }, close),
  );
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
