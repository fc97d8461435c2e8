// @ts-check
/** @import { About, WorkerSelection } from "./contract" */

// Warm caches first, but no crowd: a filter, a scorer and a picker.
//
// Leave out what you don't need: without a filter all rows are kept, without a picker the host picks the lowest cost.
//
// The module's variables last from call to call. There is no clock and no chance but what a request brings: the same call
// gives the same answer.

import { Parameters, Random } from "./guest.js";

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
    blocks_per_request: {
      description: "what a request under way weighs, in blocks",
      type: "number",
      minimum: 0,
      default: 8,
    },
  },
};

let mostRequests = 64;
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
    mostRequests = given.number("most_requests", 64, 1);
    blocksPerRequest = given.number("blocks_per_request", 8, 0);
    given.end();
    blockSize = environment.partition.blockSize;
    return {
      filters: [{ name: "has-room", inputs: ["active-requests"] }],
      scorers: [{ name: "work", inputs: ["active-requests", "device-overlap-blocks"] }],
      picker: { name: "lowest-cost", inputs: [] },
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

  // One cost a row, the lowest wins. Columns come one after the other, in the order in which they were declared.
  score(_scorer, request, { rows, numbers }) {
    const blocks = Math.ceil(Number(request.promptTokens) / blockSize);
    const costs = new Array(rows);
    for (let row = 0; row < rows; row++) {
      costs[row] = blocks - numbers[rows + row] + blocksPerRequest * numbers[row];
    }
    return costs;
  },

  // The lowest cost; among equals each with the same chance.
  pick(request, _candidates, costs) {
    const chance = new Random(request.seed);
    let [best, ties] = [0, 0];
    costs.forEach((cost, row) => {
      if (ties === 0 || cost < costs[best]) {
        [best, ties] = [row, 1];
      } else if (cost === costs[best]) {
        ties += 1;
        if (chance.unit() < 1 / ties) best = row;
      }
    });
    return best;
  },
};
