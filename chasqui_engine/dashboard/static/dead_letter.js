// One dead letter: its row, and its details on demand.
import { letterButtons } from "./actions/letters.js";
import { get } from "./api.js";
import { failure, h } from "./dom.js";
import { ago, count, local, moment } from "./format.js";
import { jobCell, payloadText } from "./lists.js";

export function letter(context, state, row, { mark, refresh }) {
  const box = h("input", { type: "checkbox", value: row.dlq_id, "aria-label": `Select ${row.id ?? row.dlq_id}` });
  box.addEventListener("change", () => {
    state.selected[box.checked ? "add" : "delete"](row.dlq_id);
    mark();
  });
  const died = { text: ago(row.died_at_ms), title: moment(row.died_at_ms), "data-ago": row.died_at_ms };
  const reason = h("span", { class: "badge bad", text: row.reason.replaceAll("_", " "), title: row.code });
  const open = h("button", { type: "button", class: "button small", text: "Details", "aria-expanded": "false" });
  const line = h(
    "tr",
    { "data-id": row.dlq_id },
    h("td", { class: "tick", "data-label": "Select" }, box),
    h("td", { "data-label": "Died", class: "nowrap", ...died }),
    jobCell(context.place, row.id),
    h("td", { "data-label": "Name", text: row.name || "–" }),
    h("td", { "data-label": "Reason" }, reason),
    h("td", { "data-label": "Error", class: "error", text: row.error || "–" }),
    h("td", { "data-label": "Payload", class: "mono payload", text: payloadText(context.me, row) }),
    h("td", { class: "tail" }, open),
  );
  let whole = null;
  open.addEventListener("click", () => {
    if (whole) whole.remove();
    whole = whole ? null : unfold(context, line, row, refresh);
    open.setAttribute("aria-expanded", String(whole !== null));
  });
  return line;
}

function unfold(context, line, row, refresh) {
  const place = h("td", { colspan: "8" }, h("p", { class: "muted", text: "Reading…" }));
  const whole = h("tr", { class: "letter-whole" }, place);
  line.after(whole);
  get("api/queue/dead/one", { ...context.place, id: row.dlq_id }).then(
    (one) => place.replaceChildren(...all(context, one), ...buttons(context, row, refresh)),
    (error) => place.replaceChildren(failure(error)),
  );
  return whole;
}

function buttons(context, row, refresh) {
  return context.me.may_change ? [h("div", { class: "row acts" }, letterButtons(context, row.dlq_id, refresh))] : [];
}

function all(context, one) {
  const facts = [
    ["Died", local(one.died_at_ms), { title: moment(one.died_at_ms) }],
    ["Added", one.created_at ?? "unknown"],
    ["Code", one.code],
    ["Size", `${count(one.bytes)} bytes`],
  ];
  return [
    h("dl", { class: "facts" }, facts.map(([name, text, more]) => h("div", {}, h("dt", { text: name }), h("dd", { text, ...more })))),
    h("h3", { text: "Error" }),
    h("pre", { text: one.error || "not said" }),
    ...(one.traceback ? [h("h3", { text: "Traceback" }), h("pre", { class: "traceback", text: one.traceback })] : []),
    h("h3", { text: "Payload" }),
    h("pre", { text: one.readable ? payloadText(context.me, one) : `cannot be read: ${one.unreadable}` }),
  ];
}
