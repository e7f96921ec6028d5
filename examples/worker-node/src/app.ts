// The application that tests/conformance/link plays its scenarios with.
import { type Run } from "./run.js";
import { JobError, type Json } from "./values.js";
import { serve } from "./worker.js";

const DAY = 86_400;

/** Calls the tool of the suite; its answer is what the tool says. */
const call =
  (what: Json) =>
  async (key: string): Promise<Json> => {
    const headers = { "content-type": "application/json", "idempotency-key": key };
    const answer = await fetch(process.env.TOOL_URL!, {
      method: "POST",
      headers,
      body: JSON.stringify(what),
    });
    if (!answer.ok) throw new JobError(`the tool answers ${answer.status}`, null);
    return answer.json();
  };

const jobs = {
  echo: (run: Run) => run.input,

  measure: (run: Run) => ({ length: run.input.text.length }),

  async step_then_effect(run: Run) {
    const draft = await run.step("draft", (name: string) => ({ text: `Dear ${name}` }), [
      run.input.name,
    ]);
    return run.effect("mail", "letter", draft, call(draft), DAY);
  },

  async two_effects(run: Run) {
    const first = await run.effect("mail", "first", { to: run.input.to }, call({ n: 1 }), DAY);
    const second = await run.effect("mail", "second", { to: run.input.to }, call({ n: 2 }), DAY);
    return [first, second];
  },

  async wait_event(run: Run) {
    const [came] = await run.all(
      run.event({ event_type: "ticket.*", subject: run.input.ticket }, 60),
    );
    return came.event.attributes;
  },

  async wait_time(run: Run) {
    await run.all(run.sleep(run.input.seconds));
    return "awake";
  },

  async children(run: Run) {
    const first = await run.enqueue("echo", { n: 1 }, "first");
    const second = await run.enqueue("echo", { n: 2 }, "second");
    return run.all(first, second);
  },

  async approval(run: Run) {
    const [decision] = await run.all(await run.approval("refund", "May I?"));
    return decision.approved;
  },

  /** Steps until it is told to stop, or the number of them is done. */
  async slow(run: Run) {
    for (let n = 0; n < run.input.seconds * 10; n++) {
      if (run.over.signal.aborted) return "stopped";
      await new Promise((go) => setTimeout(go, 100));
    }
    return "done";
  },

  fails() {
    throw new JobError("it never works");
  },

  retries() {
    throw new JobError("not now", 7);
  },
};

const {
  TIDEGATE_LINK = "ws://127.0.0.1:8460",
  TIDEGATE_LINK_TOKEN = "",
  TIDEGATE_SLOTS = "4",
} = process.env;
serve(jobs, Number(TIDEGATE_SLOTS), TIDEGATE_LINK, TIDEGATE_LINK_TOKEN);
