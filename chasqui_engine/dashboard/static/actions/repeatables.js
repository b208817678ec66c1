// What can be done with a repeatable: make one job of it now, pause or resume it, remove it.
import { act, actButton } from "./act.js";

export function repeatableButtons({ place }, one, done) {
  const body = { key: one.key };
  const button = (name, text, kind, more) =>
    actButton(
      text,
      `small ${kind}`,
      async () => (await act({ path: `api/queue/repeatables/${name}`, place, body, ...more })) && done(),
      { "data-act": name },
    );
  const changed = (yes, no) => (answer) => (answer.changed ? yes : no);
  const pause = button("pause", "Pause", "", {
    say: changed("Paused: it makes no jobs until you resume it.", "It was paused already."),
  });
  const resume = button("resume", "Resume", "", { say: changed("Resumed.", "It was not paused.") });
  return [
    button("fire", "Fire now", "", { say: ({ id }) => `Fired: added the job ${id}. Its schedule stays as it is.` }),
    one.paused ? resume : pause,
    button("remove", "Remove", "danger", {
      sure: {
        title: "Remove?",
        text: `“${one.name || one.key}” makes no more jobs. Those it has made stay. This cannot be undone.`,
        action: "Remove",
        danger: true,
      },
      say: () => "Removed: it makes no more jobs.",
    }),
  ];
}
