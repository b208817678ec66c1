// One queue: its state, its history, and its jobs by state.
import { addButton } from "./actions/add.js";
import { alarmBanner } from "./alarms.js";
import { get, post, watch } from "./api.js";
import { chart } from "./chart.js";
import { deadTab } from "./dead_letters.js";
import { ask, command, empty, h, keyed, say, toast } from "./dom.js";
import { count, duration, now, rate, setNow } from "./format.js";
import { past } from "./overview/past.js";
import { activeTab, completedTab, delayedTab, repeatablesTab, waitingTab } from "./lists.js";
import { tile, updateTile } from "./queues.js";

const WINDOWS = { 60: "1 hour", 1440: "1 day", 10080: "1 week", 40320: "4 weeks" };
const TABS = [
  ["overview", "Overview", null, overviewTab],
  ["waiting", "Waiting", "waiting", waitingTab],
  ["active", "Active", "active", activeTab],
  ["delayed", "Delayed", "delayed", delayedTab],
  ["completed", "Completed", null, completedTab],
  ["repeating", "Repeating", "repeatables", repeatablesTab],
  ["dead", "Dead letters", "dead", deadTab],
];

export async function showQueue(main, at, { me, crumbs, tell }) {
  crumbs([{ text: "Queues", href: "." }, { text: at.connection }, { text: at.queue }]);
  const place = { connection: at.connection, queue: at.queue };
  const context = { place, me, minutes: 15, view: null, rewatch: null };
  const paused = h("span", { class: "badge warn", text: "Paused", hidden: true });
  const pause = me.may_change ? pauseButton(context) : null;
  const add = me.may_change ? addButton(place) : null;
  const alarms = alarmBanner(at.queue);
  const bar = h("nav", { class: "tabs", "aria-label": "Views of this queue" });
  const body = h("div", { class: "stack", id: "view" });
  main.replaceChildren(
    h("div", { class: "page-head" }, h("h1", { text: at.queue }), paused, h("span", { class: "spacer" }), add, pause),
    alarms.element,
    bar,
    body,
  );
  const asked = new URLSearchParams(location.search).get("tab");
  let current = null;
  const buttons = TABS.map(([name, label]) =>
    h("button", { type: "button", "data-tab": name, onclick: () => choose(name) }, label, badge()),
  );
  bar.append(...buttons);

  function choose(name) {
    const chosen = TABS.find(([one]) => one === name) || TABS[0];
    for (const button of buttons) button.toggleAttribute("aria-current", button.dataset.tab === chosen[0]);
    const active = buttons.find((button) => button.hasAttribute("aria-current"));
    active.setAttribute("aria-current", "page");
    bringIntoView(active);
    const address = new URL(location.href);
    if (chosen[0] === "overview") address.searchParams.delete("tab");
    else address.searchParams.set("tab", chosen[0]);
    history.replaceState(null, "", address);
    current = chosen[3](context);
    body.replaceChildren(current.element);
    if (context.view) current.update(context.view);
  }

  const show = (view) => {
    setNow(view.now_ms);
    context.view = view;
    paused.hidden = !view.paused;
    alarms.update(view);
    if (pause) say(pause, view.paused ? "Resume" : "Pause");
    TABS.forEach(([, , field], index) => {
      const number = buttons[index].querySelector(".count");
      if (field) say(number, count(view[field]));
      number.classList.toggle("bad", field === "dead" && view.dead > 0);
    });
    if (current) current.update(view);
  };
  choose(asked);
  show(await get("api/queue", { ...place, minutes: context.minutes }));
  // The counts have made the tabs wider.
  bringIntoView(bar.querySelector("[aria-current]"));
  context.rewatch = watch("api/queue/live", "api/queue", () => ({ ...place, minutes: context.minutes }), show, tell);
}

// Not by `scrollIntoView`, from which Chromium may start the first Tab.
function bringIntoView(tab) {
  const bar = tab.parentElement;
  const [inner, outer] = [tab.getBoundingClientRect(), bar.getBoundingClientRect()];
  bar.scrollLeft += inner.left + inner.width / 2 - (outer.left + outer.width / 2);
}

function badge() {
  return h("span", { class: "count" });
}

function pauseButton(context) {
  const button = h("button", { type: "button", class: "button", id: "pause", text: "Pause" });
  button.addEventListener("click", async () => {
    const resume = context.view && context.view.paused;
    const sure = resume || (await ask({
      title: "Pause this queue?",
      text: "Workers take no jobs until you resume it. Running jobs continue; added jobs wait.",
      action: "Pause",
    }));
    if (!sure) return;
    try {
      await post(resume ? "api/queue/resume" : "api/queue/pause", context.place);
      toast(resume ? "Resumed: workers take jobs again." : "Paused: workers take no jobs.");
    } catch (error) {
      toast(error.message, "bad");
    }
  });
  return button;
}

function overviewTab(context) {
  const tiles = h("div", { class: "tiles" });
  const throughput = chart({
    title: "Jobs per second",
    bars: true,
    format: rate,
    idle: "No job ran in this time.",
    lines: [
      { key: "completed", label: "completed", kind: "ok" },
      { key: "failed", label: "failed", kind: "bad" },
    ],
  });
  const latency = chart({
    title: "Job duration",
    bars: false,
    format: duration,
    idle: "No job ran in this time.",
    lines: [
      { key: "p99_ms", label: "p99", kind: "third" },
      { key: "p95_ms", label: "p95", kind: "second" },
      { key: "p50_ms", label: "p50", kind: "first" },
    ],
  });
  const draw = (series) => {
    throughput.update(series);
    latency.update(series);
  };
  const history = past(context, (found) => {
    if (found && context.past) draw(found);
  });
  const choose = (minutes) => {
    context.past = context.me.past_min.includes(minutes);
    history.choose(minutes);
    if (context.past) return;
    context.minutes = minutes;
    context.rewatch();
  };
  context.past = false;
  const windows = h(
    "div",
    { class: "segments", role: "group", "aria-label": "Time shown" },
    [...context.me.windows_min, ...context.me.past_min].map((minutes) =>
      h("button", {
        type: "button",
        text: WINDOWS[minutes] ?? `${minutes} min`,
        "aria-pressed": String(minutes === context.minutes),
        onclick: (event) => {
          for (const other of windows.children) other.setAttribute("aria-pressed", String(other === event.target));
          choose(minutes);
        },
      }),
    ),
  );
  const workers = h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", { text: "Workers" })));
  const rows = h("tbody");
  const table = h(
    "table",
    { class: "fold" },
    h("thead", {}, h("tr", {}, ["Worker", "Running", "Buffered", "Up", "State", "Handlers"].map((text, index) =>
      h("th", { scope: "col", class: index && index < 4 ? "number" : "", text })))),
    rows,
  );
  const none = empty(
    "No worker",
    "The jobs of this queue are not taken. Start a worker:",
    command(`chasqui worker MODULE:HANDLER -q ${context.place.queue}`),
  );
  workers.append(table, none);
  return {
    element: h(
      "div",
      { class: "stack" },
      tiles,
      h("div", { class: "row end" }, windows),
      h("div", { class: "two" }, throughput.element, latency.element),
      h("div", { class: "two" }, history.depth, history.names),
      workers,
    ),
    update(view) {
      keyed(tiles, facts(view), ([label]) => label, tile, updateTile);
      if (!context.past) draw(view.series);
      history.refresh();
      table.hidden = !view.consumers.length;
      none.hidden = view.consumers.length > 0;
      keyed(rows, view.consumers, (one) => one.name, workerRow, updateWorker);
    },
  };
}

function facts(view) {
  return [
    ["Waiting", count(view.waiting)],
    ["Oldest waiting", view.waiting ? duration(view.oldest_waiting_ms) : "–", view.waits_too_long ? "bad" : ""],
    ["Active", count(view.running)],
    ["Done / s", rate(view.completed_per_s)],
    ["Failed / s", rate(view.failed_per_s), view.failed_per_s > 0 ? "bad" : ""],
    ["Dead", count(view.dead), view.dead ? "bad" : ""],
  ];
}

function workerRow(one) {
  return h(
    "tr",
    {},
    h("th", { scope: "row", class: "name mono", text: one.name, title: one.about }),
    h("td", { class: "number active", "data-label": "Running" }),
    h("td", { class: "number buffered", "data-label": "Buffered" }),
    h("td", { class: "number up", "data-label": "Up" }),
    h("td", { class: "nowrap heard", "data-label": "State" }),
    h("td", { "data-label": "Handlers", text: one.handlers || "–" }),
  );
}

function updateWorker(element, one) {
  const most = one.concurrency === null ? "" : ` of ${count(one.concurrency)}`;
  say(element.querySelector(".active"), count(one.running) + most);
  say(element.querySelector(".buffered"), count(one.buffered));
  say(element.querySelector(".up"), one.started_ms === null || !one.alive ? "–" : duration(Math.max(0, now() - one.started_ms)));
  const seen = `last seen ${duration(one.idle_ms)} ago`;
  say(element.querySelector(".heard"), one.alive ? "alive" : one.alive === false ? `died: ${seen}` : seen);
  element.querySelector(".heard").classList.toggle("bad", one.alive === false);
}
