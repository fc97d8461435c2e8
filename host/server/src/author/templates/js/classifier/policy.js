// @ts-check
/** @import { About, RequestClassifier, Verdict } from "./contract" */

// Lets so many requests through at a time, the others behind them in their order.
//
// The module's variables last from call to call. There is no clock and no chance: the same calls get the same answers.

import { Parameters } from "./guest.js";

const SCHEMA = {
  type: "object",
  additionalProperties: false,
  properties: {
    at_a_time: {
      description: "requests that are under way at once",
      type: "integer",
      minimum: 1,
      maximum: 4294967295,
      default: 256,
    },
    most_waiting: {
      description: "requests that wait at once; further ones are refused",
      type: "integer",
      minimum: 0,
      maximum: 4294967295,
      default: 10000,
    },
  },
};

/** Nothing about the request is changed. @type {Verdict} */
const AS_IT_CAME = {
  tag: "admit",
  val: { policyClass: null, dueAtMs: null, schedulingCostTokens: null, selectionTarget: null },
};

let atATime = 256;
let mostWaiting = 10_000;
/** @type {Set<string>} */
const underWay = new Set();
/** In their order, which a set keeps. @type {Set<string>} */
const waiting = new Set();

/** @type {About} */
export const about = {
  describe: () => ({
    name: "{{name}}",
    version: "0.1.0",
    summary: "{{summary}}.",
    parametersSchema: JSON.stringify(SCHEMA),
  }),
};

/** @type {RequestClassifier} */
export const requestClassifier = {
  // Reads the YAML's `parameters`, and says how often it wants a tick and how many it holds at most.
  configureClassifier(environment) {
    const given = new Parameters(environment.parameters);
    atATime = given.count("at_a_time", 256, 1);
    mostWaiting = given.count("most_waiting", 10_000, 0);
    given.end();
    return { tickMs: 0, mostHeld: mostWaiting };
  },

  // Who may go, who waits, who is refused.
  classify({ requestId }) {
    if (underWay.size < atATime) {
      underWay.add(requestId);
      return AS_IT_CAME;
    }
    if (waiting.size >= mostWaiting) return { tag: "reject", val: "too many requests wait" };
    waiting.add(requestId);
    return { tag: "hold" };
  },

  // What happens to requests; the answer lets others go on.
  onEvent(event, _nowMs) {
    switch (event.tag) {
      // Admitted by whoever was here before, or by the host: it is under way all the same.
      case "inherited":
        underWay.add(event.val.request.requestId);
        break;
      case "admitted":
        waiting.delete(event.val);
        underWay.add(event.val);
        break;
      case "completed":
      case "aborted":
        underWay.delete(event.val[0]);
        waiting.delete(event.val[0]);
        break;
    }
    const released = [];
    for (const requestId of waiting) {
      if (underWay.size >= atATime) break;
      waiting.delete(requestId);
      underWay.add(requestId);
      released.push({ requestId, verdict: AS_IT_CAME });
    }
    return released;
  },
};
