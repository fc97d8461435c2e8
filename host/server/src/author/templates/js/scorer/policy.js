// @ts-check
/** @import { About, WorkerSelection } from "./contract" */

// Warm caches first, but no crowd: what is left to compute of the prompt, and what is under way, in blocks.
//
// The module's variables last from call to call. There is no clock and no chance but what a request brings: the same call
// gives the same answer.

import { Parameters } from "./guest.js";

const SCHEMA = {
  type: "object",
  additionalProperties: false,
  properties: {
    blocks_per_request: {
      description: "what a request under way weighs, in blocks",
      type: "number",
      minimum: 0,
      default: 8,
    },
  },
};

let blocksPerRequest = 8;
let blockSize = 16;

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
    blocksPerRequest = given.number("blocks_per_request", 8, 0);
    given.end();
    blockSize = environment.partition.blockSize;
    return {
      filters: [],
      scorers: [{ name: "work", inputs: ["active-requests", "device-overlap-blocks"] }],
      picker: null,
      prefixHashBlocks: 0,
      properties: ["stateless"],
    };
  },

  keep() {
    throw "there is no filter";
  },

  // One cost a row, the lowest wins. Columns come one after the other, in the order in which they were declared.
  score(_scorer, request, { rows, numbers }) {
    const blocks = Math.ceil(Number(request.promptTokens) / blockSize);
    const costs = new Array(rows);
    for (let row = 0; row < rows; row++) {
      costs[row] = blocks - numbers[rows + row] + blocksPerRequest * numbers[row];
    }
    return costs;
  },

  pick() {
    throw "there is no picker: the host takes the lowest cost, by chance among equals";
  },
};
