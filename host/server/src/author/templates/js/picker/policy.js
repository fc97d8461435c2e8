// @ts-check
/** @import { About, WorkerSelection } from "./contract" */

// Picks the worker that holds most of the prompt, among those with hardly more requests than the fewest.
//
// It only picks: filters and scorers can stand beside it in the YAML, and `costs` is what those say.
//
// The module's variables last from call to call. There is no clock and no chance but what a request brings: the same call
// gives the same answer.

import { Parameters } from "./guest.js";

const SCHEMA = {
  type: "object",
  additionalProperties: false,
  properties: {
    more_requests: {
      description: "how many requests more than the fewest a worker may have to be picked for its cache",
      type: "number",
      minimum: 0,
      default: 4,
    },
  },
};

let moreRequests = 4;

/** @type {About} */
export const about = {
  describe: () => ({
    name: "{{name}}",
    version: "0.1.0",
    summary: "{{summary}}.",
    parametersSchema: JSON.stringify(SCHEMA),
  }),
};

/** @type {WorkerSelection} */
export const workerSelection = {
  // Reads the YAML's `parameters`, and says which stages there are and what they read.
  configure(environment) {
    const given = new Parameters(environment.parameters);
    moreRequests = given.number("more_requests", 4, 0);
    given.end();
    return {
      filters: [],
      scorers: [],
      picker: { name: "warmest-of-the-idle", inputs: ["active-requests", "device-overlap-blocks"] },
      prefixHashBlocks: 0,
      properties: ["stateless"],
    };
  },

  keep() {
    throw "there is no filter";
  },

  score() {
    throw "there is no scorer";
  },

  // The most of the prompt in device memory; among equals the fewest requests, and then the first row. Columns come one after
  // the other, in the order in which they were declared.
  pick(_request, { rows, numbers }) {
    let fewest = Infinity;
    for (let row = 0; row < rows; row++) fewest = Math.min(fewest, numbers[row]);
    let best = -1;
    for (let row = 0; row < rows; row++) {
      if (numbers[row] > fewest + moreRequests) continue;
      const isWarmer = best < 0 || numbers[rows + row] > numbers[rows + best];
      const isAsWarm = best >= 0 && numbers[rows + row] === numbers[rows + best];
      if (isWarmer || (isAsWarm && numbers[row] < numbers[best])) best = row;
    }
    return best;
  },
};
