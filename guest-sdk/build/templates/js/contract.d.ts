// The contract's types as JavaScript sees them, for editors. What they mean stands in the contract (`wit/README.md`).
// What a function throws is a refusal: a string, or an error's message. Integers of 64 bits
// come as numbers, so that what is beyond 2^53 (most seeds) is rounded; lists of them are typed arrays.

export interface Worker { id: number; dpRank: number }
export interface WorkerTarget { id: number; dpRank: number | null }
export type Role = "aggregated" | "prefill" | "decode" | "encode";
export interface Partition { model: string; routingGroup: string; role: Role; blockSize: number }
export type InputTrigger = "unknown" | "user-message" | "tool-result" | "other";
export interface Session { id: string; parentId: string | null; final: boolean | null; evict: boolean | null }
export interface RequestTraits { tracksPrefillTokens: boolean; hasTierMatches: boolean }

export type Detail =
  | { tag: "session"; val: Session }
  | { tag: "affinity-target"; val: WorkerTarget }
  | { tag: "pinned-worker"; val: Worker }
  | { tag: "priority-jump"; val: number }
  | { tag: "strict-priority"; val: number }
  | { tag: "router-temperature"; val: number }
  | { tag: "identity"; val: ArrayLike<number | bigint> }
  | { tag: "prefix-hashes"; val: ArrayLike<number | bigint> };

/** What a decision is about. */
export interface Request {
  decisionId: number;
  /** Prompt length in tokens. */
  promptTokens: number;
  /** 0 when the client made no guess. */
  expectedOutputTokens: number;
  trigger: InputTrigger;
  traits: RequestTraits;
  /** Milliseconds on the router's own clock. */
  nowMs: number;
  /** Fresh for each decision. */
  seed: number;
  details: Detail[] | null;
}

/** The rows that are left; `numbers` has the declared columns one after the other, `rows` values each. */
export interface Candidates { rows: number; uniform: number; numbers: number[] }

export interface Environment {
  partition: Partition;
  /** The YAML's `parameters`, as a JSON object. */
  parameters: string;
  /** The router's settings, as a JSON object. */
  routerConfig: string;
  seed: number;
}

export interface Stage { name: string; inputs: string[] }

export interface Declaration {
  filters: Stage[];
  scorers: Stage[];
  picker: Stage | null;
  prefixHashBlocks: number;
  properties: string[];
}

export interface WorkerSelection {
  configure(environment: Environment): Declaration;
  /** Row r is bit (r mod 64) of word (r div 64). */
  keep(filter: number, request: Request, candidates: Candidates): BigUint64Array;
  /** One finite cost a row; lower is better. */
  score(scorer: number, request: Request, candidates: Candidates): number[];
  /** A row's index. */
  pick(request: Request, candidates: Candidates, costs: number[]): number;
}

export interface Description { name: string; version: string; summary: string; parametersSchema: string }

export interface About {
  describe(): Description;
}
