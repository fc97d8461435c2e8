// @ts-check
/** @import { About, WorkerSelection } from "../../../guest-sdk/build/js/contract" */

// Sends a request to the worker with the fewest active requests among those that hold enough of its prompt; a tool's
// result goes to the worker that holds most.

const PARAMETER = "min_device_overlap_blocks";

const SCHEMA = {
  type: "object",
  additionalProperties: false,
  required: [PARAMETER],
  properties: {
    [PARAMETER]: {
      description: "blocks of the prompt that a worker must hold in device memory; 0 considers all",
      type: "number",
      minimum: 0,
    },
  },
};

// Blocks of the prompt that a worker must hold in device memory to be considered.
let leastBlocks = 0;

/** @type {About} */
export const about = {
  describe: () => ({
    name: "least-busy-js",
    version: "0.1.0",
    summary: "Fewest active requests; cache-local on a tool result.",
    parametersSchema: JSON.stringify(SCHEMA),
  }),
};

/** @type {WorkerSelection} */
export const workerSelection = {
  configure(environment) {
    leastBlocks = read(JSON.parse(environment.parameters));
    const overlap = ["device-overlap-blocks"];
    return {
      filters: [{ name: "device-overlap", inputs: overlap }],
      scorers: [{ name: "active-requests", inputs: ["active-requests"] }],
      picker: { name: "cache-local-on-tool-result", inputs: overlap },
      prefixHashBlocks: 0,
      properties: ["stateless", "replicable"],
    };
  },

  keep(_filter, _request, { rows, numbers }) {
    // Halves of the words: numbers have bits for those, and big integers are slow.
    const halves = new Uint32Array(2 * Math.ceil(rows / 64));
    for (let row = 0; row < rows; row++) {
      if (numbers[row] >= leastBlocks) halves[row >> 5] |= 1 << (row & 31);
    }
    return new BigUint64Array(halves.buffer);
  },

  score: (_scorer, _request, { numbers }) => numbers,

  // The lowest cost, the first among equals; on a tool result the most overlap, the last among equals.
  pick(request, { rows, numbers }, costs) {
    let best = 0;
    for (let row = 1; row < rows; row++) {
      const isBetter = request.trigger === "tool-result" ? numbers[row] >= numbers[best] : costs[row] < costs[best];
      if (isBetter) best = row;
    }
    return best;
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
  if (!(PARAMETER in parameters)) wrong.push(`missing parameter "${PARAMETER}"`);
  const value = parameters[PARAMETER] === undefined ? 0 : parameters[PARAMETER];
  if (!(typeof value === "number" && Number.isFinite(value) && value >= 0)) {
    wrong.push(`parameter "${PARAMETER}" is ${JSON.stringify(value)}; give a finite number, 0 or more`);
  }
  if (wrong.length > 0) throw wrong.join("\n");
  return Number(value);
}
