// Dead letters, page by page, with a filter.
import { asker } from "./api.js";
import { empty, failure, h, say } from "./dom.js";
import { count } from "./format.js";
import { letter } from "./dead_letter.js";
import { filterForm, toolbar } from "./selection.js";

const TITLES = ["Died", "Job", "Name", "Reason", "Error", "Payload", ""];

function newState() {
  return { filter: {}, cursors: [], next: null, rows: [], selected: new Set(), all: false, newest: null, total: 0 };
}

export function deadTab(context) {
  const state = newState();
  const letters = asker("api/queue/dead");
  const rows = h("tbody");
  const everyone = h("input", { type: "checkbox", id: "select-page", "aria-label": "Select all on this page" });
  const head = h("tr", {}, h("th", { class: "tick" }, everyone), TITLES.map((text) => h("th", { scope: "col", text })));
  const table = h("table", { class: "fold dead", hidden: true }, h("thead", {}, head), rows);
  const notes = h("div", { class: "below" });
  const button = (text, props) => h("button", { type: "button", class: "button", text, ...props });
  const newer = button("Newer", { disabled: true });
  const older = button("Older", { disabled: true });
  const fresh = button("There are changes: refresh", { class: "button small", id: "fresh", hidden: true });
  const where = h("span", { class: "muted" });
  const pager = h("div", { class: "row end pager" }, where, fresh, newer, older);
  const actions = toolbar(context, state, () => ({ refresh, mark }));
  const filter = filterForm((given) => {
    state.filter = given;
    first();
  });

  async function load({ unasked = false } = {}) {
    try {
      const before = state.cursors.at(-1);
      const page = await letters.ask({ ...context.place, ...state.filter, before });
      if (page === null) return null;
      if (unasked && inUse()) return offer(); // since the question was put
      if (before && !page.rows.length && page.next === null) {
        state.cursors.pop(); // the last page is no more
        return await load();
      }
      Object.assign(state, { rows: page.rows, next: page.next, total: page.total });
      if (!before) state.newest = page.rows.length ? page.rows[0].dlq_id : null;
      draw();
    } catch (error) {
      table.hidden = true;
      notes.replaceChildren(failure(error));
    }
    return null;
  }

  function inUse() {
    const reading = rows.contains(document.activeElement) || rows.querySelector(".letter-whole");
    return reading || state.cursors.length > 0 || state.selected.size > 0 || state.all;
  }

  function offer() {
    fresh.hidden = false;
    pager.hidden = false;
    return null;
  }

  function draw() {
    rows.replaceChildren(...state.rows.map((row) => letter(context, state, row, { mark, refresh })));
    table.hidden = !state.rows.length;
    notes.replaceChildren(...(state.rows.length ? [] : [nothing(state)]));
    newer.disabled = !state.cursors.length;
    older.disabled = state.next === null;
    fresh.hidden = true;
    pager.hidden = !state.rows.length && newer.disabled && older.disabled;
    say(where, `Page ${count(state.cursors.length + 1)} · ${count(state.total)} dead letters in total`);
    mark();
  }

  function mark() {
    for (const box of rows.querySelectorAll("input[type=checkbox]")) {
      box.checked = state.all || state.selected.has(box.value);
      box.disabled = state.all;
    }
    const whole = state.rows.length > 0 && state.rows.every((row) => state.selected.has(row.dlq_id));
    everyone.checked = state.all || whole;
    everyone.disabled = state.all;
    actions.update();
  }

  function turn(cursors) {
    state.cursors = cursors;
    state.selected.clear();
    return load();
  }

  function first() {
    state.all = false;
    return turn([]);
  }

  function refresh() {
    state.all = false;
    return turn(state.cursors);
  }

  everyone.addEventListener("change", () => {
    for (const row of state.rows) state.selected[everyone.checked ? "add" : "delete"](row.dlq_id);
    mark();
  });
  older.addEventListener("click", () => turn([...state.cursors, state.next]));
  newer.addEventListener("click", () => turn(state.cursors.slice(0, -1)));
  fresh.addEventListener("click", refresh);
  load();
  return {
    element: h("section", { class: "card" }, filter, actions.element, table, notes, pager),
    update(view) {
      if (view.dead === state.total || actions.busy() || letters.asking()) return;
      if (inUse()) offer();
      else load({ unasked: true });
    },
  };
}

function nothing(state) {
  if (state.next !== null) {
    return empty("No match so far", "Continue with “Older”: there are more dead letters.");
  }
  if (Object.keys(state.filter).length) return empty("No dead letter matches", "Change the filter, or clear it.");
  return empty("No dead letters", "Jobs that failed for good are listed here with their errors.");
}
