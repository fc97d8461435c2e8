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

/** What a rank can hold. */
export interface Capacity { worker: Worker; totalKvBlocks: number | null }

export interface ClassifierEnvironment {
  partition: Partition;
  /** The YAML's `parameters`, as a JSON object. */
  parameters: string;
  /** The router's settings, as a JSON object. */
  routerConfig: string;
  policyClasses: string[];
  workers: Capacity[];
  seed: number;
}

/** `tickMs` 0 is never; to hold more than `mostHeld` is a bad answer. */
export interface ClassifierDeclaration { tickMs: number; mostHeld: number }

/** A request at the door. */
export interface ClassifyRequest {
  requestId: string;
  policyClass: string;
  inputTokens: number;
  progressTokens: number;
  session: Session | null;
  trigger: InputTrigger;
  pinnedWorker: WorkerTarget | null;
  expectedOutputTokens: number | null;
  priorityJump: number;
  strictPriority: number;
  dueAtMs: number | null;
  schedulingCostTokens: number;
  arrivedAtMs: number;
  nowMs: number;
}

/** What an admitted request goes on with; `null` leaves things as they are. */
export interface Admission {
  policyClass: string | null;
  dueAtMs: number | null;
  schedulingCostTokens: number | null;
  selectionTarget: WorkerTarget | null;
}

export type Verdict =
  | { tag: "admit"; val: Admission }
  | { tag: "hold" }
  | { tag: "reject"; val: string };

export interface Release { requestId: string; verdict: Verdict }

export interface LiveRequest { request: ClassifyRequest; worker: Worker | null; responding: boolean }

/** What happened. Each request that was asked about gets exactly one `completed` or `aborted`. */
export type LifecycleEvent =
  | { tag: "inherited"; val: LiveRequest }
  | { tag: "admitted"; val: string }
  | { tag: "sent"; val: [string, Worker] }
  | { tag: "responding"; val: string }
  | { tag: "completed"; val: [string, number | null] }
  | { tag: "aborted"; val: [string, Worker | null] }
  | { tag: "fleet-changed"; val: Capacity[] }
  | { tag: "tick" };

export interface RequestClassifier {
  configureClassifier(environment: ClassifierEnvironment): ClassifierDeclaration;
  classify(request: ClassifyRequest): Verdict;
  /** The answer releases held requests. */
  onEvent(event: LifecycleEvent, nowMs: number): Release[];
}
