// One job: its state and its events.
import { get, pageOf } from "./api.js";
import { h } from "./dom.js";
import { ago, count, duration, local, moment, setNow, since, until } from "./format.js";
import { actButton } from "./actions/act.js";
import { actsOf } from "./actions/jobs.js";
import { letterButtons } from "./actions/letters.js";
import { progressBar } from "./job/progress.js";
import { timeline } from "./job/timeline.js";

const STATES = { waiting: "", active: "info", delayed: "", completed: "ok", failed: "warn", dead: "bad", unknown: "" };
const SETTLED = new Set(["completed", "dead", "aborted", "expired", "unknown"]);
const AGAIN_MS = 3000;

export async function showJob(main, at, { me, crumbs, tell }) {
  crumbs([
    { text: "Queues", href: "." },
    { text: at.connection },
    { text: at.queue, href: pageOf(at.connection, at.queue) },
    { text: at.job },
  ]);
  const params = { connection: at.connection, queue: at.queue, id: at.job };
  const context = { place: { connection: at.connection, queue: at.queue }, me, done: () => again() };
  let drawn = "";
  let timer = 0;

  async function look() {
    const found = await get("api/queue/job", params);
    setNow(found.now_ms);
    const state = JSON.stringify([found.job, found.events, found.log]);
    if (state !== drawn) redraw(found);
    drawn = state;
    tell("poll", SETTLED.has(found.job.state) ? "" : "Updating");
    later();
  }

  // What was unfolded stays so, and the focus stays where it was.
  function redraw(found) {
    const open = [...main.querySelectorAll("details")].map((one) => one.open);
    const pressed = document.activeElement?.dataset.act;
    draw(main, found, context);
    [...main.querySelectorAll("details")].forEach((one, index) => (one.open = open[index] ?? false));
    if (pressed) main.querySelector(`[data-act="${CSS.escape(pressed)}"]`)?.focus();
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(again, AGAIN_MS);
  }

  function again() {
    if (document.hidden) return later();
    return look().catch((error) => {
      tell("off", error.message);
      later();
    });
  }

  await look();
}

function draw(main, { job, events, log }, context) {
  const state = h("span", { class: `badge ${STATES[job.state] ?? ""}`, id: "state", text: job.state });
  const life = h("section", { class: "card" }, titled("Timeline"), timeline(events, job));
  const story = h("div", { class: "stack" }, life, log.count ? logOf(log) : null);
  main.replaceChildren(
    h(
      "div",
      { class: "page-head" },
      h("h1", { class: "mono id", text: job.id }),
      state,
      h("span", { class: "spacer" }),
      h("div", { class: "row", id: "acts" }, context.me.may_change ? buttons(job, context) : []),
    ),
    h("div", { class: "two uneven" }, story, h("div", { class: "stack" }, about(job), data(job, context.me))),
  );
}

function buttons(job, context) {
  if (job.dlq_id !== null) return letterButtons(context, job.dlq_id, context.done);
  return actsOf(job).map(({ name, label, kind, work }) => {
    const pressed = async () => (await work(context.place, [job.id], job)) && context.done();
    return actButton(label, kind, pressed, { "data-act": name });
  });
}

function titled(text) {
  return h("div", { class: "card-head" }, h("h2", { text }));
}

function about(job) {
  const facts = [
    ["Name", job.name || "–"],
    ["Runs", runs(job)],
    ["Added", job.created_at_ms === null ? "unknown" : `${local(job.created_at_ms)} (${ago(job.created_at_ms)})`, utc(job.created_at_ms)],
  ];
  if (job.started_at_ms !== null) facts.push([job.attempt > 1 ? "Last run began" : "Started", local(job.started_at_ms), utc(job.started_at_ms)]);
  if (job.ended_at_ms !== null) facts.push([job.attempt > 1 ? "Last run ended" : "Ended", local(job.ended_at_ms), utc(job.ended_at_ms)]);
  if (job.duration_ms !== null) facts.push(["Took", duration(job.duration_ms)]);
  if (job.run_at_ms !== null) facts.push(["Runs next", `${local(job.run_at_ms)} (${until(job.run_at_ms)})`, utc(job.run_at_ms)]);
  if (job.consumer !== null) facts.push(["Worker", job.consumer]);
  if (job.reason !== null) facts.push(["Died of", job.reason.replaceAll("_", " ")]);
  if (job.state === "active" && job.started_at_ms !== null) facts.push(["Runs for", since(job.started_at_ms), { "data-since": job.started_at_ms }]);
  const list = facts.map(([name, text, more]) => h("div", {}, h("dt", { text: name }), h("dd", { text, ...more })));
  const error = job.last_error;
  const failed = error === null ? null : h("div", { class: "padded" }, h("h3", { text: "Last error" }), pre(error), ...trace(job));
  return h("section", { class: "card" }, titled("About"), h("dl", { class: "facts" }, list), failed);
}

function trace(job) {
  return job.traceback ? [h("h3", { text: "Traceback" }), h("pre", { class: "traceback", text: job.traceback })] : [];
}

function utc(ms) {
  return ms === null ? {} : { title: moment(ms) };
}

function runs(job) {
  if (job.attempt === null) return "unknown";
  return job.max_attempts === null ? count(job.attempt) : `${count(job.attempt)} of ${count(job.max_attempts)}`;
}

function pre(text) {
  return h("pre", { text });
}

function logOf({ lines, count: all }) {
  const shown = lines ? lines.join("\n") : "hidden by a setting of the dashboard";
  const rest = lines && all > lines.length ? h("p", { class: "muted", text: `The last ${count(lines.length)} of ${count(all)} lines` }) : null;
  return h("section", { class: "card" }, titled("Log"), h("div", { class: "padded" }, rest, h("pre", { class: "log", text: shown })));
}

function data(job, me) {
  const hidden = me.payloads === "hide" ? "hidden by a setting of the dashboard" : "";
  const gone = "not kept: a job that has ended takes it along";
  const progress = job.progress === null ? [] : [h("h3", { text: "Progress" }), job.percent === null ? pre(job.progress) : progressBar(job)];
  const payload = pre(job.payload_known ? (job.payload ?? hidden) : gone);
  const result = job.result_known ? [h("h3", { text: "Result" }), pre(job.result ?? hidden)] : [];
  return h("section", { class: "card" }, titled("Payload"), h("div", { class: "padded" }, payload, progress, result));
}
