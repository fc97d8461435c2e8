// @ts-check
/** @import { About, WorkerSelection } from "./contract" */

// Warm caches first, but no crowd: what is left to compute of the prompt, and what is under way, in blocks.
//
// The module's variables last from call to call. There is no clock and no chance but what a request brings: the same call
// gives the same answer.

const PARAMETER = "blocks_per_request";

const SCHEMA = {
  type: "object",
  additionalProperties: false,
  properties: {
    [PARAMETER]: {
      description: "what a request under way weighs, in blocks of the prompt that are to be computed",
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
    name: "new-policy",
    version: "0.1.0",
    summary: "Warm caches first, but no crowd.",
    parametersSchema: JSON.stringify(SCHEMA),
  }),
};

/** @type {WorkerSelection} */
export const workerSelection = {
  // Reads the YAML's `parameters`, and says which stages there are and what they read.
  configure(environment) {
    blocksPerRequest = read(JSON.parse(environment.parameters));
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

/**
 * The one parameter; or all that is wrong is thrown, a sentence a line.
 * @param {Record<string, unknown>} parameters
 * @returns {number}
 */
function read(parameters) {
  const wrong = Object.keys(parameters)
    .filter((name) => name !== PARAMETER)
    .map((name) => `unknown parameter "${name}", expected "${PARAMETER}"`);
  const value = parameters[PARAMETER] === undefined ? 8 : parameters[PARAMETER];
  if (!(typeof value === "number" && Number.isFinite(value) && value >= 0)) {
    wrong.push(`parameter "${PARAMETER}" is ${JSON.stringify(value)}; give a finite number, 0 or more`);
  }
  if (wrong.length > 0) throw wrong.join("\n");
  return Number(value);
}
