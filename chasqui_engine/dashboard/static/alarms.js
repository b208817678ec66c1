// What is wrong with a queue now, in words: a badge in the list, a sentence on its page.
import { command, h, keyed, say } from "./dom.js";
import { count, duration } from "./format.js";

function alarmsOf(row) {
  const found = [];
  if (row.lacks_workers) {
    const jobs = row.waiting === 1 ? "1 job waits" : `${count(row.waiting)} jobs wait`;
    found.push({ name: "no-worker", brief: "No worker", text: `${jobs}, and no worker runs. Start one:` });
  }
  if (row.waits_too_long) {
    const age = duration(row.oldest_waiting_ms);
    found.push({ name: "too-old", brief: `Waits ${age}`, text: `The oldest job has waited for ${age}.` });
  }
  return found;
}

export function updateBadges(place, row) {
  const badge = () => h("span", { class: "badge bad alarm" });
  keyed(place, alarmsOf(row), ({ name }) => name, badge, (element, { brief }) => say(element, brief));
}

export function alarmBanner(queue) {
  const place = h("div", { class: "alarms", role: "group", "aria-label": "Alarms" });
  const line = ({ name }) =>
    h(
      "p",
      { class: "alarm" },
      h("strong", {}),
      name === "no-worker" ? command(`chasqui worker MODULE:HANDLER -q ${queue}`) : null,
    );
  return {
    element: place,
    update: (view) =>
      keyed(place, alarmsOf(view), ({ name }) => name, line, (element, { text }) => say(element.firstChild, text)),
  };
}
