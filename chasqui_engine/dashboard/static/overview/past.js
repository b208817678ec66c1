// What the counts of the workers tell: the depth of a queue, its jobs by name, and plots that reach back days.
import { asker } from "../api.js";
import { chart } from "../chart.js";
import { h, keyed, say } from "../dom.js";
import { count, now } from "../format.js";

const HOUR_MIN = 60;
const AGAIN_MS = 30_000;

export function past(context, show) {
  const history = asker("api/queue/history");
  const depth = chart({
    title: "Jobs in the queue",
    bars: false,
    format: (value) => count(Math.round(value)),
    idle: "No worker counted any.",
    lines: [
      { key: "waiting", label: "waiting", kind: "first" },
      { key: "active", label: "in flight", kind: "ok" },
      { key: "delayed", label: "delayed", kind: "second" },
    ],
  });
  const rows = h("tbody");
  const titles = ["Name", "Completed", "Failed runs", "Died"];
  const head = titles.map((text, index) => h("th", { scope: "col", class: index ? "number" : "", text }));
  const table = h("table", { class: "fold many" }, h("thead", {}, h("tr", {}, head)), rows);
  const note = h("p", { class: "note" });
  const title = h("h2", { text: "By name, in the last hour" });
  const names = h("section", { class: "card" }, h("div", { class: "card-head" }, title), table, note);
  let minutes = HOUR_MIN;
  let asked = 0;

  async function load() {
    asked = now();
    try {
      const found = await history.ask({ ...context.place, minutes });
      if (found === null) return;
      depth.update(found);
      keyed(rows, found.names, ({ name }) => name, row, update);
      table.hidden = !found.names.length;
      say(note, found.names.length ? "" : "No worker counted a job in this time.");
      show(minutes === HOUR_MIN ? null : found);
    } catch (error) {
      table.hidden = true;
      say(note, error.message);
    }
  }

  load();
  return {
    depth: depth.element,
    names,
    choose(wanted) {
      minutes = Math.max(HOUR_MIN, wanted);
      say(title, wanted > HOUR_MIN ? "By name" : "By name, in the last hour");
      return load();
    },
    refresh() {
      if (now() - asked > AGAIN_MS && !history.asking()) load();
    },
  };
}

function row({ name }) {
  const text = name === "*" ? "other names" : name || "–";
  const cell = (kind, label) => h("td", { class: `number ${kind}`, "data-label": label });
  return h(
    "tr",
    {},
    h("th", { scope: "row", class: "name", text }),
    cell("completed", "Completed"),
    cell("failures", "Failed runs"),
    cell("died", "Died"),
  );
}

function update(element, one) {
  say(element.querySelector(".completed"), count(one.completed));
  say(element.querySelector(".failures"), count(one.failed));
  say(element.querySelector(".died"), count(one.dead));
}
