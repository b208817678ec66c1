// What can be done with jobs in each state: on the page of one, and with those selected in a list.
import { post } from "../api.js";
import { toast } from "../dom.js";
import { count, local, now } from "../format.js";
import { act, told } from "./act.js";
import { fill, localMoment, millis, momentField } from "./form.js";

const HOUR_MS = 3_600_000;

function these(ids, what = "job") {
  return ids.length === 1 ? `the ${what}` : `${count(ids.length)} ${what}s`;
}

const runNow = {
  name: "run-now",
  label: "Run now",
  kind: "primary",
  work: (place, ids) =>
    act({ path: "api/queue/delayed/run", place, body: { ids }, say: told("put on the queue, to run now") }),
};

const reschedule = {
  name: "reschedule",
  label: "Reschedule",
  kind: "",
  async work(place, ids) {
    const answer = await fill({
      title: "Reschedule?",
      text: `Gives ${these(ids)} another time to run.`,
      fields: [momentField("at", "Run at", localMoment(now() + HOUR_MS), { required: true })],
      action: "Reschedule",
      submit: async ({ at }) => {
        const body = { ids, at_ms: millis(at) };
        return { ...(await post("api/queue/delayed/reschedule", place, body)), at: body.at_ms };
      },
    });
    if (!answer) return false;
    toast(told(`rescheduled to ${local(answer.at)}`)(answer));
    return true;
  },
};

const cancel = {
  name: "cancel",
  label: "Cancel",
  kind: "danger",
  work: (place, ids) =>
    act({
      path: "api/queue/delayed/cancel",
      place,
      body: { ids },
      sure: { title: "Cancel?", text: `Deletes ${these(ids)}, which will not run.`, action: "Cancel it", danger: true },
      say: told("cancelled"),
    }),
};

const removeWaiting = {
  name: "remove",
  label: "Remove",
  kind: "danger",
  work: (place, entries) =>
    act({
      path: "api/queue/waiting/remove",
      place,
      body: { ids: entries },
      sure: { title: "Remove?", text: `Deletes ${these(entries)}, which will not run.`, action: "Remove", danger: true },
      say: told("removed"),
    }),
};

const removeOne = {
  name: "remove",
  label: "Remove",
  kind: "danger",
  work: (place, [id], { state } = {}) =>
    act({
      path: "api/queue/job/remove",
      place,
      body: { id },
      sure: {
        title: "Remove?",
        text:
          state === "completed"
            ? "Deletes the result of this job and frees its id."
            : "Deletes this job, which will not run, and frees its id.",
        action: "Remove",
        danger: true,
      },
      say: (answer) => (answer.active ? "Nothing was removed: the job runs." : told("removed")(answer)),
    }),
};

const ABORTED = {
  __proto__: null,
  removed: "The job was aborted. It had not begun.",
  aborted: "The job was aborted. Its worker has stopped it.",
  requested: "The job is to be aborted. Its worker has not stopped it yet.",
  gone: "Nothing was aborted: the job has ended.",
};

const abort = {
  name: "abort",
  label: "Abort",
  kind: "danger",
  work: (place, [id]) =>
    act({
      path: "api/queue/job/abort",
      place,
      body: { id },
      sure: {
        title: "Abort?",
        text: "Stops this job while it runs. It ends as aborted: it is not retried, and leaves no dead letter.",
        action: "Abort",
        danger: true,
      },
      say: (answer) => ABORTED[answer.state],
    }),
};

// By the list, for what is selected there: waiting jobs by their entries, delayed ones by their ids.
export const OF_LIST = { waiting: [removeWaiting], delayed: [runNow, reschedule, cancel] };

// By the state of one job. A dead one has its own: see letters.js.
const OF_STATE = {
  __proto__: null,
  waiting: [removeOne],
  active: [abort],
  delayed: [runNow, reschedule, cancel],
  failed: [{ ...runNow, label: "Retry now" }, reschedule, cancel],
  completed: [removeOne],
};

export function actsOf(job) {
  return OF_STATE[job.state] ?? [];
}
