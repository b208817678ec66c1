// What can be done with one dead letter: replay it, edit its payload first, or delete it.
import { get, post } from "../api.js";
import { toast } from "../dom.js";
import { act, actButton, told } from "./act.js";
import { fill } from "./form.js";

export function letterButtons(context, dlqId, done) {
  const { place, me } = context;
  const then = async (work) => (await work) && done();
  const body = { ids: [dlqId] };
  const replay = () => act({ path: "api/queue/dead/replay", place, body, say: told("put back on the queue") });
  const remove = () =>
    act({
      path: "api/queue/dead/delete",
      place,
      body,
      sure: {
        title: "Delete for good?",
        text: "Deletes this dead letter. This cannot be undone; export it first if you may need it.",
        action: "Delete",
        danger: true,
      },
      say: told("deleted"),
    });
  return [
    actButton("Replay", "primary", () => then(replay()), { "data-act": "replay" }),
    me.payloads === "show" && actButton("Edit and replay", "", () => then(edit(place, dlqId)), { "data-act": "edit" }),
    actButton("Delete", "danger", () => then(remove()), { "data-act": "delete" }),
  ].filter(Boolean);
}

async function edit(place, dlqId) {
  let payload = "";
  try {
    payload = (await get("api/queue/dead/editable", { ...place, id: dlqId })).payload;
  } catch (error) {
    toast(error.message, "bad");
    return false;
  }
  const answer = await fill({
    title: "Edit and replay",
    text: "The job goes back on the queue with this payload, and with a fresh attempt count.",
    fields: [
      { name: "payload", label: "Payload", kind: "long", value: payload, hint: 'JSON; {"$bytes": "<base64>"} stands for bytes.' },
    ],
    action: "Replay",
    submit: (given) => post("api/queue/dead/edit", place, { id: dlqId, payload: given.payload }),
  });
  if (!answer) return false;
  toast(told("put back on the queue with its new payload")(answer));
  return true;
}
