/** One line of metrics: `name{label="value"} 1`. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The metrics of a process, in the Prometheus text format 0.0.4. */
export interface Exposition {
  readonly samples: readonly Sample[];
  readonly types: ReadonlyMap<string, string>;
  readonly help: ReadonlyMap<string, string>;
  /** The value of the only sample with this name and at least these labels; undefined without one. */
  value(name: string, labels?: Readonly<Record<string, string>>): number | undefined;
}

const sampleLine = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const label = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"(?:,|$)/y;

/**
 * Parses metrics strictly: every deviation from the format is an error. Independent of the library that writes them.
 */
export function parseExposition(text: string): Exposition {
  if (!text.endsWith("\n")) throw new Error("the last line does not end");
  const samples: Sample[] = [];
  const types = new Map<string, string>();
  const help = new Map<string, string>();
  const seen = new Set<string>();
  let family = "";
  for (const line of text.slice(0, -1).split("\n")) {
    if (line === "") continue;
    const [, keyword, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (keyword === "HELP") {
      if (help.has(name)) throw new Error(`two families of one name: ${name}`);
      help.set(name, rest);
      family = name;
    } else if (keyword === "TYPE") {
      if (name !== family || types.has(name)) throw new Error(`a type at the wrong place: ${line}`);
      if (!["counter", "gauge", "histogram", "summary", "untyped"].includes(rest)) throw new Error(`no type: ${line}`);
      types.set(name, rest);
    } else {
      const sample = sampleOf(line);
      const type = types.get(family);
      const suffix = sample.name.startsWith(family) ? sample.name.slice(family.length) : "another family";
      const allowed = type === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
      if (!allowed.includes(suffix)) throw new Error(`a sample that is not of the family ${family}: ${line}`);
      const key = keyOf(sample.name, sample.labels);
      if (seen.has(key)) throw new Error(`a sample twice: ${line}`);
      seen.add(key);
      samples.push(sample);
    }
  }
  for (const [name, type] of types) if (type === "histogram") checkHistogram(name, samples);
  return {
    samples,
    types,
    help,
    value: (name, labels = {}) => {
      const found = samples.filter(
        (sample) =>
          sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
      );
      if (found.length > 1) throw new Error(`${found.length} samples are called ${name} ${JSON.stringify(labels)}`);
      return found[0]?.value;
    },
  };
}

function sampleOf(line: string): Sample {
  const [, name, inside, number] = sampleLine.exec(line) ?? [];
  if (name === undefined || number === undefined) throw new Error(`no sample: ${line}`);
  const labels: Record<string, string> = {};
  for (label.lastIndex = 0; label.lastIndex < (inside ?? "").length;) {
    const [, key, value = ""] = label.exec(inside ?? "") ?? [];
    if (key === undefined) throw new Error(`labels that are none: ${line}`);
    labels[key] = value.replace(/\\(.)/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
  }
  const value = number === "+Inf" ? Infinity : Number(number);
  if (Number.isNaN(value)) throw new Error(`no number: ${line}`);
  return { name, labels, value };
}

function keyOf(name: string, labels: Sample["labels"], without?: string): string {
  const pairs = Object.entries(labels).filter(([key]) => key !== without);
  return JSON.stringify([name, ...pairs.sort(([a], [b]) => (a < b ? -1 : 1))]);
}

/** Buckets ascend, are cumulative, and end with `+Inf`. */
function checkHistogram(name: string, samples: readonly Sample[]): void {
  const buckets = samples.filter((sample) => sample.name === `${name}_bucket`);
  const series = Map.groupBy(buckets, ({ labels }) => keyOf(`${name}_count`, labels, "le"));
  for (const [key, of] of series) {
    const bounds = of.map(({ labels }) => (labels["le"] === "+Inf" ? Infinity : Number(labels["le"])));
    const count = samples.find((sample) => keyOf(sample.name, sample.labels) === key)?.value;
    const ascend = (numbers: readonly number[]): boolean =>
      numbers.every((n, i) => i === 0 || n >= (numbers[i - 1] ?? n));
    if (!ascend(bounds) || !ascend(of.map(({ value }) => value))) throw new Error(`buckets that do not ascend: ${key}`);
    if (bounds.at(-1) !== Infinity || of.at(-1)?.value !== count) throw new Error(`buckets without an end: ${key}`);
  }
}
