// @ts-check
/** @import { About, WorkerSelection } from "./contract" */

// Leaves out the workers that have enough to do. The host picks one of the others, or whatever the YAML puts beside it.
//
// The module's variables last from call to call. There is no clock and no chance but what a request brings: the same call
// gives the same answer.

import { Parameters } from "./guest.js";

const SCHEMA = {
  type: "object",
  additionalProperties: false,
  properties: {
    most_requests: {
      description: "from so many requests on a worker gets no more",
      type: "number",
      minimum: 1,
      default: 64,
    },
  },
};

let mostRequests = 64;

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
    mostRequests = given.number("most_requests", 64, 1);
    given.end();
    return {
      filters: [{ name: "has-room", inputs: ["active-requests"] }],
      scorers: [],
      picker: null,
      prefixHashBlocks: 0,
      properties: ["stateless"],
    };
  },

  // Leaves out who has enough to do. Row r is kept if bit r % 64 of word r / 64 is set.
  keep(_filter, _request, { rows, numbers }) {
    const words = new BigUint64Array(Math.ceil(rows / 64));
    for (let row = 0; row < rows; row++) {
      if (numbers[row] < mostRequests) words[row >> 6] |= 1n << BigInt(row & 63);
    }
    return words;
  },

  score() {
    throw "there is no scorer";
  },

  pick() {
    throw "there is no picker: the host takes the lowest cost, by chance among equals";
  },
};
