/** What a client has seen, to be compared with what others saw and did. Times are in milliseconds on the clock of all processes. */
export type Observation =
  | Seen<"directory", { readonly by: string; /** Those that it may have been. */ readonly versions: readonly number[] }>
  /** `modified` of what changed in a version. */
  | { readonly what: "time"; readonly version: number; readonly milliseconds: number }
  /** A load into a table that many load into, from its commit to the first time that it was known to be done. */
  | Seen<"load", { readonly table: SharedTable; readonly client: number; readonly load: number }>
  /** How many loads of each client are in `shared`. */
  | Seen<"shared", { readonly loads: readonly (readonly [client: number, count: number])[] }>
  /** The load in `replaced`. */
  | Seen<"replaced", { readonly load: readonly [client: number, load: number] | undefined }>;

export type SharedTable = "shared" | "replaced";

type Seen<What extends string, More> = { readonly what: What; readonly began: number; readonly ended: number } & More;

/** When the source of each version was there to be applied, and when its run had ended. */
export interface Version {
  readonly began: number;
  ended: number;
}

/** Every client is told the truth of a moment between its question and its answer. @returns what contradicts that */
export function judge(observations: readonly Observation[], versions: readonly Version[]): string[] {
  const all = Map.groupBy(observations, ({ what }) => what) as Map<string, readonly Observation[]>;
  const of = <What extends Observation["what"]>(what: What) =>
    (all.get(what) ?? []) as readonly Extract<Observation, { what: What }>[];
  return [
    ...judgeDirectory(of("directory"), versions),
    ...judgeTimes(of("time")),
    ...judgeShared(of("shared"), of("load")),
    ...judgeReplaced(of("replaced"), of("load")),
  ];
}

type Of<What extends Observation["what"]> = readonly Extract<Observation, { what: What }>[];

function judgeDirectory(seen: Of<"directory">, versions: readonly Version[]): string[] {
  const earliest = versions.map(() => Infinity);
  for (const { versions: candidates, ended } of seen) {
    const [version, other] = candidates;
    if (version !== undefined && other === undefined) earliest[version] = Math.min(earliest[version] ?? 0, ended);
  }
  /** When somebody knew of a later version. */
  const later: number[] = [];
  let known = Infinity;
  for (let version = versions.length - 1; version >= 0; version--) {
    later[version] = known;
    known = Math.min(known, earliest[version] ?? Infinity, versions[version]?.ended ?? Infinity);
  }
  return seen.flatMap(({ by, versions: candidates, began, ended }) => {
    const isPossible = candidates.some(
      (version) => (versions[version]?.began ?? Infinity) <= ended && (later[version] ?? Infinity) >= began,
    );
    return isPossible
      ? []
      : [`${by}, from ${began} to ${ended}: the directory as of version ${candidates.join(" or ")}`];
  });
}

function judgeTimes(seen: Of<"time">): string[] {
  const times = new Map<number, number>();
  const wrong: string[] = [];
  for (const { version, milliseconds } of seen) {
    const before = times.get(version);
    if (before !== undefined && before !== milliseconds) wrong.push(`version ${version} has two times of its changes`);
    times.set(version, milliseconds);
  }
  const inOrder = [...times].toSorted(([one], [other]) => one - other);
  for (const [index, [version, milliseconds]] of inOrder.entries()) {
    if (milliseconds <= (inOrder[index - 1]?.[1] ?? 0))
      wrong.push(`version ${version} is not later than the one before`);
  }
  return wrong;
}

function judgeShared(seen: Of<"shared">, loads: Of<"load">): string[] {
  const byClient = Map.groupBy(
    loads.filter(({ table }) => table === "shared"),
    ({ client }) => client,
  );
  return seen.flatMap(({ began, ended, loads: found }) => {
    const counts = new Map(found);
    return [...byClient].flatMap(([client, own]) => {
      const count = counts.get(client) ?? 0;
      const least = own.filter((load) => load.ended <= began).length;
      const most = own.filter((load) => load.began <= ended).length;
      return count >= least && count <= most
        ? []
        : [`from ${began} to ${ended}, shared had ${count} loads of client ${client}, not ${least} to ${most}`];
    });
  });
}

function judgeReplaced(seen: Of<"replaced">, loads: Of<"load">): string[] {
  const all = loads.filter(({ table }) => table === "replaced");
  const keyOf = (client: number, load: number): string => `${client} ${load}`;
  const byKey = new Map(all.map((each) => [keyOf(each.client, each.load), each]));
  return seen.flatMap(({ began, ended, load }) => {
    const is = load === undefined ? undefined : byKey.get(keyOf(...load));
    const since = load === undefined ? -Infinity : (is?.ended ?? Infinity);
    const isGone = all.some((other) => other.began >= since && other.ended <= began);
    const isThere = load === undefined || (is !== undefined && is.began <= ended);
    return isThere && !isGone
      ? []
      : [`from ${began} to ${ended}, replaced had the load ${load?.join(" ") ?? "of nobody"}`];
  });
}
