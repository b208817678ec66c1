// Waiting, active, delayed and repeatable jobs: one table each, page by page.
import { millis } from "./actions/form.js";
import { OF_LIST } from "./actions/jobs.js";
import { repeatableButtons } from "./actions/repeatables.js";
import { selection } from "./actions/selected.js";
import { asker, pageOf } from "./api.js";
import { command, empty, failure, h } from "./dom.js";
import { ago, count, duration, moment, now, since, until, zone } from "./format.js";
import { progressBar } from "./job/progress.js";

export function jobCell(place, id) {
  const href = id === null ? null : pageOf(place.connection, place.queue, id);
  const text = id === null ? "cannot be read" : id;
  return h("td", { class: "mono id", "data-label": "Job" }, h(href ? "a" : "span", { href, text }));
}

export function payloadText(me, row) {
  if (row.readable === false) return "cannot be read";
  return me.payloads === "hide" ? "hidden" : (row.payload ?? "");
}

function cell(label, text, kind = "", more = {}) {
  return h("td", { class: kind, "data-label": label, text, ...more });
}

// A table that reloads when the number of its jobs changes, unless the user is working in it.
function listTab(context, { path, field, columns, row, none, cursor, group = null, byName = false, byTime = false, keyOf = null }) {
  const first = {};
  const jobs = asker(path);
  const rows = h("tbody");
  const head = columns.map((text) => h("th", { scope: "col", text }));
  const reload = () => load(shown);
  const acts = context.me.may_change && keyOf ? OF_LIST[field] : [];
  const chosen = acts.length ? selection({ place: context.place, acts, keyOf, done: reload }) : null;
  const table = h("table", { class: "fold", hidden: true }, h("thead", {}, h("tr", {}, chosen?.head, head)), rows);
  const notes = h("div", { class: "below" });
  const back = h("button", { type: "button", class: "button", text: "First page", hidden: true });
  const more = h("button", { type: "button", class: "button", text: "Next page", hidden: true });
  const pager = h("div", { class: "row end pager", hidden: true }, back, more);
  const named = byName ? filter(() => load(first), byTime) : null;
  const element = h("section", { class: "card" }, named, chosen?.toolbar, table, notes, pager);
  let shown = first;
  let known = null;
  let stale = false;
  let next = null;

  async function load(params, { unasked = false } = {}) {
    shown = params;
    stale = false;
    try {
      const page = await jobs.ask({ ...context.place, ...params, ...wanted(named) });
      if (page === null) return;
      if (unasked && inUse()) {
        stale = true;
        return;
      }
      next = page.next;
      const made = (one) => {
        const line = row(one, context, reload);
        if (chosen) line.prepend(chosen.boxOf(one));
        return line;
      };
      chosen?.reset();
      rows.replaceChildren(...(group ? grouped(page.rows, group, columns.length, made) : page.rows.map(made)));
      chosen?.update();
      table.hidden = !page.rows.length;
      notes.replaceChildren(...(page.rows.length ? [] : [filtered(named) ? noneMatches(named, next) : none(context)]));
      more.hidden = next === null;
      back.hidden = params === first;
      pager.hidden = more.hidden && back.hidden;
    } catch (error) {
      table.hidden = true;
      notes.replaceChildren(failure(error));
    }
  }

  function inUse() {
    const costly = byTime && filtered(named); // it looks through many
    return shown !== first || costly || chosen?.any() || element.contains(document.activeElement);
  }

  more.addEventListener("click", () => load({ [cursor]: next }));
  back.addEventListener("click", () => load(first));
  load(first);
  return {
    element,
    update(view) {
      const flows = field === "active" || (field === "completed_per_s" && view[field] > 0);
      stale ||= known !== null && (known !== view[field] || flows);
      known = view[field];
      if (stale && !inUse() && !jobs.asking()) load(first, { unasked: true });
    },
  };
}

function filter(search, byTime) {
  const field = h("input", { type: "search", name: "name", placeholder: "exactly", maxlength: "256" });
  const submit = (event) => {
    event.preventDefault();
    search();
  };
  const button = h("button", { type: "submit", class: "button", text: "Filter" });
  const moment = (name, label) =>
    h("label", { title: `In your time zone, ${zone()}` }, label, h("input", { type: "datetime-local", name }));
  const times = byTime ? [moment("since_ms", "From"), moment("until_ms", "To")] : [];
  return h("form", { class: "filter named", onsubmit: submit }, h("label", {}, "Name", field), times, button);
}

function wanted(form) {
  const given = form ? [...new FormData(form)].filter(([, value]) => value) : [];
  return Object.fromEntries(given.map(([name, value]) => [name, name.endsWith("_ms") ? millis(value) : value]));
}

function filtered(form) {
  return Object.keys(wanted(form)).length > 0;
}

function noneMatches(form, next) {
  const what = form.elements.name.value ? "has this name" : "matches";
  if (next !== null) return empty(`None of those that were read ${what}`, "The next page reads on.");
  return empty(`No job ${what}`, "");
}

// Rows grouped by what they share, the largest group first.
function grouped(all, group, width, made) {
  const groups = new Map();
  for (const one of all) groups.set(one[group], [...(groups.get(one[group]) ?? []), one]);
  return [...groups.entries()]
    .sort(([, some], [, others]) => others.length - some.length)
    .flatMap(([name, some]) => {
      const title = h("span", { class: "mono", text: name });
      const jobs = h("span", { class: "muted", text: ` · ${count(some.length)} job${some.length === 1 ? "" : "s"}` });
      const head = h("tr", { class: "group" }, h("th", { scope: "rowgroup", colspan: String(width) }, title, jobs));
      return [head, ...some.map(made)];
    });
}

export function waitingTab(context) {
  return listTab(context, {
    path: "api/queue/waiting",
    field: "waiting",
    cursor: "after",
    byName: true,
    keyOf: (one) => one.entry_id,
    columns: ["Job", "Name", "Waiting for", "Attempts", "Payload"],
    none: () => empty("No waiting jobs", "Workers have taken every job."),
    row: (one, { place, me }) =>
      h(
        "tr",
        {},
        jobCell(place, one.id),
        cell("Name", one.name || "–"),
        cell("Waiting for", duration(Math.max(0, now() - one.since_ms)), "", { title: moment(one.since_ms) }),
        cell("Attempts", one.attempt ?? "?"),
        cell("Payload", payloadText(me, one), "mono payload"),
      ),
  });
}

export function activeTab(context) {
  return listTab(context, {
    path: "api/queue/active",
    field: "active",
    group: "consumer",
    columns: ["Job", "Name", "Runs for", "Run", "Progress", "Payload"],
    none: () => empty("No active jobs", "No worker has a job of this queue."),
    row: (one, { place, me }) =>
      h(
        "tr",
        {},
        jobCell(place, one.id),
        cell("Name", one.name || "–"),
        runsFor(one),
        cell("Run", runOf(one)),
        h("td", { "data-label": "Progress" }, progressBar(one) ?? "–"),
        cell("Payload", payloadText(me, one), "mono payload"),
      ),
  });
}

export function delayedTab(context) {
  return listTab(context, {
    path: "api/queue/delayed",
    field: "delayed",
    cursor: "start",
    byName: true,
    keyOf: (one) => one.id,
    columns: ["Runs", "Job", "Name", "Runs so far", "Payload", "Last error"],
    none: () => empty("No delayed jobs", "Jobs that run later, and jobs between two retries, are listed here."),
    row: (one, { place, me }) =>
      h(
        "tr",
        {},
        cell("Runs", until(one.run_at_ms), "nowrap", { title: moment(one.run_at_ms), "data-until": one.run_at_ms }),
        jobCell(place, one.id),
        cell("Name", one.name || "–"),
        cell("Runs so far", soFar(one)),
        cell("Payload", payloadText(me, one), "mono payload"),
        cell("Last error", one.error === null ? "–" : lastError(one), one.error === null ? "" : "error failed"),
      ),
  });
}

// Its worker has it; whether it has begun is in the events, as long as these are kept.
function runsFor(one) {
  const waited = `On the queue since ${moment(one.since_ms)}`;
  if (one.started_at_ms === null) return cell("Runs for", "not known to run", "muted", { title: waited });
  const title = `Since ${moment(one.started_at_ms)}. ${waited}`;
  return cell("Runs for", since(one.started_at_ms), "nowrap", { title, "data-since": one.started_at_ms });
}

function runOf(one) {
  const number = one.run ?? (one.attempt === null ? null : one.attempt + 1);
  const run = number === null ? "?" : count(number) + (one.max_attempts === null ? "" : ` of ${count(one.max_attempts)}`);
  return one.deliveries > 1 ? `${run} (delivery ${count(one.deliveries)})` : run;
}

function soFar(one) {
  if (one.attempt === null) return "?";
  return count(one.attempt) + (one.max_attempts === null ? "" : ` of ${count(one.max_attempts)}`);
}

function lastError(one) {
  return one.error_type && one.error_type !== one.error ? `${one.error_type}: ${one.error}` : one.error;
}

export function completedTab(context) {
  return listTab(context, {
    path: "api/queue/completed",
    field: "completed_per_s",
    cursor: "before",
    byName: true,
    byTime: true,
    columns: ["Completed", "Job", "Name", "Took", "Runs", "Result"],
    none: () =>
      empty("No completed jobs", "Jobs that went well are listed here as long as the queue keeps its events."),
    row: (one, { place, me }) =>
      h(
        "tr",
        {},
        cell("Completed", ago(one.at_ms), "nowrap", { title: moment(one.at_ms), "data-ago": one.at_ms }),
        jobCell(place, one.id),
        cell("Name", one.name || "–"),
        cell("Took", one.duration_ms === null ? "?" : duration(one.duration_ms), "nowrap"),
        cell("Runs", one.attempt === null ? "?" : count(one.attempt)),
        cell("Result", resultText(me, one), one.result_known ? "mono payload" : "muted"),
      ),
  });
}

function resultText(me, one) {
  if (!one.result_known) return "not kept";
  return me.payloads === "hide" ? "hidden" : (one.result ?? "");
}

export function repeatablesTab(context) {
  return listTab(context, {
    path: "api/queue/repeatables",
    field: "repeatables",
    columns: ["Job", "Pattern", "Next", "Then", "Missed fires", "Key", ...(context.me.may_change ? [""] : [])],
    none: ({ place }) =>
      empty(
        "No repeatable jobs",
        "Add one with a cron expression or an interval:",
        command(`chasqui repeatable add NAME '{}' --cron '0 9 * * 1-5' -q ${place.queue}`),
      ),
    row: (one, _, reload) =>
      h(
        "tr",
        {},
        h("td", { "data-label": "Job" }, h("div", { text: one.name || "–" }), one.paused && pausedBadge()),
        h(
          "td",
          { "data-label": "Pattern" },
          h("span", { class: "mono", text: one.cron ?? `every ${duration(one.every_ms)}` }),
          one.tz ? h("span", { class: "muted zone", text: one.tz }) : null,
        ),
        h(
          "td",
          { "data-label": "Next" },
          h("div", { text: one.paused ? "when it is resumed" : (one.fires[0] ?? "never") }),
          one.paused
            ? null
            : h("div", { class: "muted", text: until(one.next_fire_ms), "data-until": one.next_fire_ms }),
        ),
        h("td", { "data-label": "Then" }, one.fires.slice(1, 4).map((text) => h("div", { class: "muted", text }))),
        cell("Missed fires", one.missed + (one.limit === null ? "" : `, ${count(one.limit)} in total`)),
        cell("Key", one.key, "mono"),
        context.me.may_change && h("td", { class: "tail" }, h("div", { class: "row end" }, repeatableButtons(context, one, reload))),
      ),
  });
}

function pausedBadge() {
  return h("span", { class: "badge warn", text: "Paused" });
}
