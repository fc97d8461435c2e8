// @ts-check

// What any policy in JavaScript needs of the contract; what this one decides stands in `policy.js`.

/** The YAML's `parameters`. All that is wrong with them is told at once, a sentence a line. */
export class Parameters {
  /** @param {string} text */
  constructor(text) {
    /** @type {Record<string, unknown>} */
    this.given = JSON.parse(text);
    /** @type {string[]} */
    this.known = [];
    /** @type {string[]} */
    this.wrong = [];
  }

  /**
   * A finite number, `least` or more; `usual` where it is left out.
   * @param {string} name
   * @param {number} usual
   * @param {number} least
   * @returns {number}
   */
  number(name, usual, least) {
    const value = this.take(name, usual);
    if (typeof value === "number" && Number.isFinite(value) && value >= least) return value;
    return this.refuse(name, value, `a finite number, ${least} or more`, usual);
  }

  /**
   * A whole number from `least` to 4,294,967,295.
   * @param {string} name
   * @param {number} usual
   * @param {number} least
   * @returns {number}
   */
  count(name, usual, least) {
    const value = this.take(name, usual);
    const isCount = typeof value === "number" && Number.isInteger(value);
    if (isCount && value >= least && value < 2 ** 32) return value;
    return this.refuse(name, value, `a whole number, ${least} or more`, usual);
  }

  /** Refuses what is wrong, and what nobody asked for. */
  end() {
    const expected = this.known.map((name) => `"${name}"`).join(", ");
    for (const name of Object.keys(this.given)) {
      if (!this.known.includes(name)) this.wrong.push(`unknown parameter "${name}", expected ${expected}`);
    }
    if (this.wrong.length > 0) throw this.wrong.join("\n");
  }

  /** @param {string} name @param {number} usual */
  take(name, usual) {
    this.known.push(name);
    return this.given[name] === undefined ? usual : this.given[name];
  }

  /** @param {string} name @param {unknown} value @param {string} wanted @param {number} usual */
  refuse(name, value, wanted, usual) {
    this.wrong.push(`parameter "${name}" is ${JSON.stringify(value)}; give ${wanted}`);
    return usual;
  }
}

/** @param {bigint} number */
const wrapped = (number) => BigInt.asUintN(64, number);

/** Chance from a decision's seed, by the contract's SplitMix64: the same seed gives the same numbers. */
export class Random {
  /** @param {number} seed */
  constructor(seed) {
    this.state = wrapped(BigInt(seed));
  }

  /** The next number in [0, 1). */
  unit() {
    this.state = wrapped(this.state + 0x9e3779b97f4a7c15n);
    let mixed = wrapped((this.state ^ (this.state >> 30n)) * 0xbf58476d1ce4e5b9n);
    mixed = wrapped((mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
    return Number((mixed ^ (mixed >> 31n)) >> 11n) / 2 ** 53;
  }
}
