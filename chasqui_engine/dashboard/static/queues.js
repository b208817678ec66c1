// All queues of all connections.
import { updateBadges } from "./alarms.js";
import { get, pageOf, query, watch } from "./api.js";
import { command, empty, h, keyed, say } from "./dom.js";
import { count, duration, rate, setNow } from "./format.js";

const COLUMNS = [
  ["waiting", "Waiting", (row) => count(row.waiting)],
  ["oldest", "Oldest", (row) => (row.waiting ? duration(row.oldest_waiting_ms) : "–")],
  ["active", "Active", (row) => count(row.running)],
  ["workers", "Workers", (row) => count(row.workers)],
  ["delayed", "Delayed", (row) => count(row.delayed)],
  ["dead", "Dead", (row) => count(row.dead)],
  ["done", "Done/s", (row) => rate(row.completed_per_s)],
  ["failed", "Failed/s", (row) => rate(row.failed_per_s)],
];

export async function showQueues(main, { crumbs, tell }) {
  crumbs([{ text: "Queues" }]);
  const search = h("input", {
    type: "search",
    id: "search",
    placeholder: "Find a queue",
    "aria-label": "Find a queue",
    autocomplete: "off",
  });
  const totals = h("div", { class: "tiles" });
  const sections = h("div", { class: "stack" });
  main.replaceChildren(
    h("div", { class: "page-head" }, h("h1", { text: "Queues" }), h("span", { class: "spacer" }), search),
    totals,
    sections,
  );
  let view = null;
  const show = (next) => {
    view = next;
    setNow(view.now_ms);
    drawTotals(totals, view);
    keyed(sections, view.connections, (one) => one.name, connectionSection, (element, one) =>
      updateSection(element, one, search.value.trim()),
    );
  };
  search.addEventListener("input", () => view && show(view));
  show(await get("api/queues"));
  watch("api/queues/live", "api/queues", () => ({}), show, tell);
}

function drawTotals(place, view) {
  // Several connections may lead to one server, whose jobs count once.
  const servers = view.connections.filter((one) => !one.same_as);
  const all = servers.flatMap((one) => one.queues);
  const sum = (field) => all.reduce((total, row) => total + row[field], 0);
  const tiles = [
    ["Queues", count(servers.reduce((total, one) => total + (one.total || 0), 0))],
    ["Waiting", count(sum("waiting"))],
    ["Active", count(sum("running"))],
    ["Delayed", count(sum("delayed"))],
    ["Dead", count(sum("dead")), sum("dead") ? "bad" : ""],
    ["Done / s", rate(sum("completed_per_s"))],
  ];
  keyed(place, tiles, ([label]) => label, tile, updateTile);
}

export function tile([label]) {
  const value = h("span", { class: "tile-value" });
  return h("div", { class: "tile" }, h("span", { class: "tile-label", text: label }), value);
}

export function updateTile(element, [, value, kind = ""]) {
  say(element.querySelector(".tile-value"), value);
  element.className = `tile ${kind}`;
}

function connectionSection(one) {
  const head = COLUMNS.map(([, label]) => h("th", { scope: "col", class: "number", text: label }));
  return h(
    "section",
    { class: "card" },
    h("div", { class: "card-head" }, h("h2", { text: one.name }), h("span", { class: "muted address" })),
    h(
      "table",
      { class: "fold many" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "Queue" }), head)),
      h("tbody"),
    ),
    h("div", { class: "below" }),
  );
}

function updateSection(section, one, wanted) {
  const matches = one.queues.filter((row) => row.queue.toLowerCase().includes(wanted.toLowerCase()));
  const same = one.same_as ? ` (the same server as ${one.same_as})` : "";
  say(section.querySelector(".address"), (one.address || "") + same);
  section.querySelector("table").hidden = !matches.length;
  keyed(section.querySelector("tbody"), matches, (row) => row.queue, (row) => queueRow(one.name, row), updateRow);
  const below = section.querySelector(".below");
  const state = JSON.stringify([wanted, one.total, matches.length, one.pending, one.error, one.bad]);
  if (below.dataset.state === state) return;
  below.dataset.state = state;
  below.replaceChildren(...remarks(section, one, wanted, matches.length), ...one.bad.map(badQueue));
}

function badQueue({ queue, error }) {
  return h("p", { class: "note bad", text: `“${queue}” cannot be read: ${error}` });
}

function remarks(section, one, wanted, shown) {
  if (one.error) return [empty("This server does not answer", one.error.message)];
  if (one.pending) return [empty("Loading…", "The server is slow to answer.")];
  if (!one.queues.length && one.bad.length) return [];
  if (!one.queues.length) {
    return [
      empty(
        "No queues yet",
        "A queue appears as soon as a job is added to it:",
        command("chasqui add hello '{}' -q emails"),
      ),
    ];
  }
  const hidden = one.total - one.queues.length - one.bad.length;
  if (wanted && hidden > 0) return [moreButton(section, one, wanted)];
  if (!shown) return [empty("No queue matches", `None of ${count(one.total)} has “${wanted}” in its name.`)];
  return hidden > 0 ? [h("p", { class: "note", text: `${count(hidden)} more: find them by name.` })] : [];
}

function moreButton(section, one, wanted) {
  const found = h("ul", { class: "plain" });
  const button = h("button", { type: "button", class: "button", text: `Search all ${count(one.total)} queues` });
  button.addEventListener("click", async () => {
    const answer = await get(query("api/queues/search", { connection: one.name, text: wanted }));
    found.replaceChildren(
      ...answer.queues.map((row) => h("li", {}, h("a", { href: pageOf(one.name, row.queue), text: row.queue }))),
    );
    if (!answer.queues.length) found.replaceChildren(h("li", { text: "None matches." }));
  });
  return h("div", { class: "note" }, button, found);
}

function queueRow(connection, row) {
  const cells = COLUMNS.map(([name, label]) => h("td", { class: `number ${name}`, "data-label": label }));
  const link = h("a", { href: pageOf(connection, row.queue), text: row.queue });
  const paused = h("span", { class: "badge warn paused", text: "Paused", hidden: true });
  const badges = h("span", { class: "badges" });
  return h("tr", {}, h("th", { scope: "row", class: "name" }, link, " ", paused, " ", badges), cells);
}

function updateRow(element, row) {
  element.querySelector(".paused").hidden = !row.paused;
  COLUMNS.forEach(([name, , text]) => {
    const cell = element.querySelector(`.${name}`);
    say(cell, text(row));
    cell.classList.toggle("zero", cell.textContent === "0" || cell.textContent === "–");
  });
  updateBadges(element.querySelector(".badges"), row);
  element.classList.toggle("alarmed", row.lacks_workers || row.waits_too_long);
  element.querySelector(".workers").classList.toggle("bad", row.lacks_workers);
  element.querySelector(".oldest").classList.toggle("bad", row.waits_too_long);
  element.querySelector(".dead").classList.toggle("bad", row.dead > 0);
  element.querySelector(".failed").classList.toggle("bad", row.failed_per_s > 0);
}
