// Selected dead letters, and actions on them: replay, delete, export.
import { post, query } from "./api.js";
import { ask, h, say, toast } from "./dom.js";
import { count } from "./format.js";

const REASONS = ["retries_exhausted", "unrecoverable", "decode_failed", "malformed", "oversize_payload"];
const AGES = { 3600: "in the last hour", 86400: "in the last day", 604800: "in the last week" };

export function filterForm(apply) {
  const option = (value, text) => h("option", { value, text });
  const reasons = REASONS.map((one) => option(one, one.replaceAll("_", " ")));
  const ages = Object.entries(AGES).map(([value, text]) => option(value, text));
  const field = (name, placeholder) =>
    h("input", { type: "text", name, placeholder, maxlength: "200", autocomplete: "off" });
  const form = h(
    "form",
    { class: "filter" },
    h("label", {}, "Reason", h("select", { name: "reason" }, option("", "any reason"), reasons)),
    h("label", {}, "Name", field("name", "exactly")),
    h("label", {}, "Error", field("error", "contains")),
    h("label", {}, "Job", field("job_id", "its id")),
    h("label", {}, "Died", h("select", { name: "newer_than_s" }, option("", "any time"), ages)),
    h(
      "div",
      { class: "row" },
      h("button", { type: "submit", class: "button primary", text: "Filter" }),
      h("button", { type: "reset", class: "button", text: "Clear" }),
    ),
  );
  const given = () => {
    const all = [...new FormData(form)].map(([name, value]) => [name, value.trim()]);
    return Object.fromEntries(all.filter(([, value]) => value));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply(given());
  });
  form.addEventListener("reset", () => setTimeout(() => apply(given())));
  return form;
}

export function toolbar(context, state, tools) {
  const chosen = h("span", { class: "chosen", role: "status" });
  const every = h("button", { type: "button", class: "link", id: "select-all" });
  const button = (id, text, kind = "") => h("button", { type: "button", class: `button ${kind}`, id, text });
  const replay = button("replay", "Replay", "primary");
  const remove = button("delete", "Delete", "danger");
  const save = button("export", "Export");
  const acts = context.me.may_change ? [replay, remove, save] : [save];
  const element = h("div", { class: "toolbar" }, chosen, every, h("span", { class: "spacer" }), acts);
  let busy = false;

  function update() {
    const any = state.all || state.selected.size > 0;
    const total = count(state.total);
    const some = `${count(state.selected.size)} selected`;
    say(chosen, state.all ? `All ${filtered(state) ? "that match" : total} selected` : some);
    const offer = filtered(state) ? "Select all that match" : `Select all ${total}`;
    say(every, state.all ? "Clear the selection" : offer);
    every.hidden = !state.rows.length || !state.newest;
    element.hidden = !state.rows.length && !any;
    for (const act of acts) act.disabled = !any || busy;
  }

  // A selection by filter is processed in parts, and excludes jobs that died after it was made.
  async function work(path, done) {
    busy = true;
    update();
    let total = 0;
    let left = 0;
    const body = state.all
      ? { filter: numbers(state.filter), until: state.newest, after: null }
      : { ids: [...state.selected] };
    try {
      do {
        const answer = await post(path, context.place, body);
        total += answer.done;
        left += answer.selected - answer.done;
        body.after = answer.next;
        if (answer.next) say(chosen, `${count(total)} ${done} so far…`);
      } while (body.after);
      const rest = left ? `; ${count(left)} stay: they cannot be read, or are gone` : "";
      toast(`${count(total)} ${done}${rest}.`);
    } catch (error) {
      toast(error.message, "bad");
    }
    busy = false;
    await tools().refresh();
  }

  every.addEventListener("click", () => {
    state.all = !state.all;
    state.selected.clear();
    tools().mark();
  });
  replay.addEventListener("click", async () => {
    const text = `Puts ${named(state)} back on ${context.place.queue}, with a fresh attempt count.`;
    const sure = await ask({ title: "Replay?", text, action: "Replay" });
    if (sure) await work("api/queue/dead/replay", "replayed");
  });
  remove.addEventListener("click", async () => {
    const loss = "This cannot be undone; export them first if you may need them.";
    const text = `Deletes ${named(state)} of ${context.place.queue}. ${loss}`;
    const sure = await ask({ title: "Delete for good?", text, action: "Delete", danger: true });
    if (sure) await work("api/queue/dead/delete", "deleted");
  });
  save.addEventListener("click", () => {
    const selection = state.all ? { ...state.filter, until: state.newest } : { ids: [...state.selected].join(",") };
    const link = h("a", { href: query("api/queue/dead/export", { ...context.place, ...selection }), download: "" });
    document.body.append(link);
    link.click();
    link.remove();
  });
  return { element, update, busy: () => busy };
}

function filtered(state) {
  return Object.keys(state.filter).length > 0;
}

function named(state) {
  if (state.all) return filtered(state) ? "every dead letter that matches" : `all ${count(state.total)} dead letters`;
  return `${count(state.selected.size)} dead letter${state.selected.size === 1 ? "" : "s"}`;
}

function numbers(filter) {
  const entries = Object.entries(filter);
  return Object.fromEntries(entries.map(([name, value]) => [name, name.endsWith("_s") ? Number(value) : value]));
}
