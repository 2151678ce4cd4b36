import { text } from "node:stream/consumers";
import { inspect } from "node:util";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import type { Connector, Entry, Source, SourceRecord } from "#connector.ts";
import { messageOf, RollcallError } from "#errors.ts";
import { spawnProgram } from "../../support/process.ts";
import { type Company, company as nested, flat, largeCompany } from "./company.ts";
import type { Counts, Reading } from "./reader.ts";
import { type AttributeNames, type View, viewOfCompany, viewOfRecords } from "./view.ts";

/** Where a company can be held and read by a connector: files, a server. */
export interface Medium<P extends Provision = Provision> {
  readonly name: string;
  /** The URL of the connector's module. */
  readonly module: string;
  readonly attributes: AttributeNames;
  /** Puts a company there. */
  provision(company: Company): Promise<P>;
  /** What can go wrong before and during a read; the read must fail. */
  readonly faults: {
    readonly before: readonly Fault<P>[];
    /** After the first batch of a company of thousands. */
    readonly during: readonly Fault<P>[];
  };
  /** What the lines of `describe` must hold together; left out where a source does not describe itself. */
  readonly describes?: readonly RegExp[];
  /** Whether the source tells its version. */
  readonly versions?: boolean;
  /** Whether groups can be in groups. Default: true. */
  readonly nests?: boolean;
  /** How many users are several batches, and more than arrives at once. Default: 5,000. */
  readonly many?: number;
  /** A size that cannot be held within a heap of so many MiB; left out where another form of the medium is read by the same code. */
  readonly large?: { readonly users: number; readonly heap: number };
}

/** A company in a medium. */
export interface Provision {
  /** What stands beside `connector:` in the configuration. */
  readonly options: unknown;
  readonly folder: string;
  /** What no error may show. */
  readonly secrets: readonly string[];
  /** Gives a user another login and display name. */
  rename(number: string, login: string): Promise<void>;
  /** How many files or connections the source holds now. */
  held(): Promise<number>;
  dispose(): Promise<void>;
}

export interface Fault<P extends Provision> {
  readonly name: string;
  readonly inject: (provision: P) => Promise<void>;
  /** What the error's message must hold. */
  readonly message: RegExp;
  /** What the error advises, where that matters. */
  readonly advice?: "fix" | "retry";
}

/** What every source promises (`src/connector.ts`). */
export function sourceSuite<P extends Provision>(medium: Medium<P>): void {
  const provide = async (content: Company): Promise<P> => {
    const provision = await medium.provision(content);
    onTestFinished(() => provision.dispose());
    return provision;
  };
  const company = medium.nests === false ? flat(nested) : nested;
  const many = largeCompany(medium.many ?? 5_000);
  /** What the tests use that only read: each company is provided once for all of them. */
  const shared = new Map<Company, Promise<P>>();
  const provideOnce = (content: Company): Promise<P> => {
    const provision = shared.get(content) ?? medium.provision(content);
    shared.set(content, provision);
    return provision;
  };
  const open = async ({ options, folder }: Provision): Promise<Source> => {
    const connector = ((await import(medium.module)) as { default: Connector }).default;
    return connector.open(connector.options.parse(options), { name: "source", folder });
  };
  const readAll = async (provision: Provision): Promise<readonly SourceRecord[]> => {
    const records: SourceRecord[] = [];
    for await (const batch of (await open(provision)).read(context())) records.push(...batch);
    return records;
  };
  const view = async (provision: Provision): Promise<View> =>
    viewOfRecords(await readAll(provision), medium.attributes);

  describe(`a source: ${medium.name}`, () => {
    afterAll(async () => {
      for (const provision of shared.values()) await (await provision).dispose();
      shared.clear();
    });

    test("delivers every user, group and membership", async () => {
      const provision = await provideOnce(company);
      expect(await view(provision)).toEqual(viewOfCompany(company));
      expect(await provision.held()).toBe(0);
    });

    test("leaves out what a record does not have", async () => {
      const records = await readAll(await provideOnce(company));
      const values = records.flatMap((record) =>
        record.kind === "membership" ? [] : Object.values(record.attributes),
      );
      expect(values).not.toContain(undefined);
      expect(values).not.toContain(null);
      expect(values).not.toContain("");
      const without = records.filter(
        (record) => record.kind === "user" && !(medium.attributes.mail in record.attributes),
      );
      expect(without).toHaveLength(company.users.filter((user) => user.mail === undefined).length);
    });

    test("gives every record an origin, and every entry an id of its own", async () => {
      const records = await readAll(await provideOnce(company));
      expect(records.filter((record) => record.origin === "")).toEqual([]);
      const ids = idsOf(records).map(({ kind, id }) => `${kind} ${id}`);
      expect(new Set(ids).size).toBe(company.users.length + company.groups.length);
    });

    test("gives the same ids at the next read, also to who was renamed", async () => {
      const provision = await provide(company);
      const before = idsOf(await readAll(provision));
      await provision.rename("3", "georg");
      const records = await readAll(provision);
      expect(idsOf(records)).toEqual(before);
      const logins = records.map((record) => record.kind === "user" && record.attributes[medium.attributes.login]);
      expect(logins).toContain("georg");
      expect(logins).not.toContain("jörg");
    });

    test("delivers thousands in batches", async () => {
      const provision = await provideOnce(many);
      const sizes: number[] = [];
      const records: SourceRecord[] = [];
      for await (const batch of (await open(provision)).read(context())) {
        sizes.push(batch.length);
        records.push(...batch);
      }
      expect(Math.max(...sizes)).toBeLessThanOrEqual(5_000);
      expect(sizes).not.toContain(0);
      expect(sizes.length).toBeGreaterThan(1);
      expect(viewOfRecords(records, medium.attributes)).toEqual(viewOfCompany(many));
    });

    test("throws the reason of a signal that is aborted already", async () => {
      const provision = await provideOnce(company);
      const reason = new Error("enough");
      const source = await open(provision);
      await expect(drain(source, AbortSignal.abort(reason))).rejects.toBe(reason);
      expect(await provision.held()).toBe(0);
    });

    test("throws the reason of a signal that is aborted during the read", async () => {
      const provision = await provideOnce(many);
      const abort = new AbortController();
      // A reason need not be an error.
      const reason = "enough";
      const source = await open(provision);
      await expect(drain(source, abort.signal, () => abort.abort(reason))).rejects.toBe(reason);
      expect(await provision.held()).toBe(0);
    });

    test("holds nothing after a read that nobody finished", async () => {
      const provision = await provideOnce(many);
      for await (const batch of (await open(provision)).read(context())) {
        expect(batch.length).toBeGreaterThan(0);
        break;
      }
      await expect.poll(() => provision.held()).toBe(0);
    });

    test("can be read twice at a time", async () => {
      const provision = await provideOnce(company);
      const source = await open(provision);
      expect(await Promise.all([count(source), count(source)])).toEqual([await count(source), await count(source)]);
    });

    test("describes what it reached, if it does at all", async () => {
      const provision = await provideOnce(company);
      const lines = await (await open(provision)).describe?.(context());
      expect(lines !== undefined).toBe(medium.describes !== undefined);
      const description = (lines ?? []).join("\n");
      for (const pattern of medium.describes ?? []) expect(description).toMatch(pattern);
      for (const secret of provision.secrets) expect(description).not.toContain(secret);
      expect(await provision.held()).toBe(0);
    });

    test("looks up by id who is there, if it does at all", async () => {
      const provision = await provideOnce(company);
      const source = await open(provision);
      const entries = (await readAll(provision)).filter((record) => record.kind !== "membership");
      const wanted = [
        entries.find(({ kind }) => kind === "user"),
        entries.find(({ kind }) => kind === "group"),
      ].flatMap((entry) => entry ?? []);
      const nobody = { kind: "user", id: "00000000-0000-4000-8000-000000000000" } as const;
      const found = (await Array.fromAsync(source.find?.([...wanted, nobody], context()) ?? [])).flat();
      const seen = (some: readonly Entry[]) => some.map(({ kind, id, keys }) => ({ kind, id, keys })).sort(byKind);
      expect(seen(found)).toEqual(source.find === undefined ? [] : seen(wanted));
      expect(await provision.held()).toBe(0);
    });

    test("counts what it read to its end, and believes as much again", async () => {
      const provision = await provideOnce(company);
      const source = await open(provision);
      const reading = async (lastCounts?: Record<string, number>): Promise<Record<string, number>> => {
        const counts: Record<string, number> = {};
        const count = (name: string, amount: number): void => void (counts[name] = amount);
        for await (const batch of source.read({ ...context(), count, lastCounts }))
          expect(batch.length).toBeGreaterThan(0);
        return counts;
      };
      const counts = await reading();
      expect(await reading(counts)).toEqual(counts);
    });

    test("tells another version exactly when something has changed, if it tells one at all", async () => {
      const provision = await provide(company);
      const source = await open(provision);
      const first = await source.version?.(context());
      expect(first !== undefined).toBe(medium.versions === true);
      await drain(source);
      expect(await source.version?.(context())).toBe(first);
      await provision.rename("3", "georg");
      const second = await source.version?.(context());
      if (first !== undefined) expect([undefined, first]).not.toContain(second);
      expect(await source.version?.(context())).toBe(second);
      expect(await provision.held()).toBe(0);
    });

    test.each(medium.faults.before)("fails when $name", async ({ inject, message }) => {
      const provision = await provide(company);
      await expect(view(provision)).resolves.toBeDefined();
      await inject(provision);
      await expectFailure(provision, drain(await open(provision)), message);
    });

    test.each(medium.faults.during)("fails when, during the read, $name", async ({ inject, message, advice }) => {
      const provision = await provide(many);
      let batches = 0;
      const read = drain(await open(provision), undefined, async () => {
        if (batches++ === 0) await inject(provision);
      });
      await expectFailure(provision, read, message, advice);
      expect(batches).toBeGreaterThan(0);
    });

    if (medium.large !== undefined) readsMoreThanMemoryHolds(medium, medium.large);
  });
}

/** Apart from `sourceSuite` where a server takes long to deliver so much. */
export function readsMoreThanMemoryHolds(
  medium: Pick<Medium, "name" | "module" | "provision">,
  { users, heap }: NonNullable<Medium["large"]>,
): void {
  test(`${medium.name}: reads more than memory holds`, { timeout: 300_000 }, async () => {
    const content = largeCompany(users);
    const { options, folder, dispose } = await medium.provision(content);
    onTestFinished(dispose);
    const counts = await readElsewhere({ module: medium.module, options, folder }, heap);
    expect(counts).toMatchObject({ user: content.users.length, group: content.groups.length });
  });
}

/** The read fails with an error of ours, which shows nothing it must not, and holds nothing afterwards. */
async function expectFailure(
  provision: Provision,
  read: Promise<void>,
  message: RegExp,
  advice?: Fault<Provision>["advice"],
): Promise<void> {
  const failure = await read.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(failure).toBeInstanceOf(RollcallError);
  expect(messageOf(failure)).toMatch(message);
  if (advice !== undefined) expect(failure).toMatchObject({ advice });
  // With its causes, as a log would show it.
  const shown = inspect(failure, { depth: 10 });
  for (const secret of provision.secrets) expect(shown).not.toContain(secret);
  await expect.poll(() => provision.held()).toBe(0);
}

function context(signal: AbortSignal = new AbortController().signal) {
  return { signal, warn: () => {} };
}

async function drain(source: Source, signal?: AbortSignal, each: () => void | Promise<void> = () => {}): Promise<void> {
  for await (const batch of source.read(context(signal))) {
    expect(batch.length).toBeGreaterThan(0);
    await each();
  }
}

async function count(source: Source): Promise<number> {
  let records = 0;
  for await (const batch of source.read(context())) records += batch.length;
  return records;
}

function byKind(a: { readonly kind: string }, b: { readonly kind: string }): number {
  return a.kind < b.kind ? -1 : a.kind === b.kind ? 0 : 1;
}

function idsOf(records: readonly SourceRecord[]): readonly { kind: string; id: string }[] {
  return records
    .flatMap((record) => (record.kind === "membership" ? [] : [{ kind: record.kind, id: record.id }]))
    .sort((a, b) => (`${a.kind} ${a.id}` < `${b.kind} ${b.id}` ? -1 : 1));
}

/** Reads in a process whose heap has so many MiB. */
export async function readElsewhere(reading: Reading, heap: number): Promise<Counts> {
  const child = spawnProgram(new URL("reader.ts", import.meta.url), [], [`--max-old-space-size=${heap}`]);
  child.stdin.end(JSON.stringify(reading));
  const [output, problems] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (output === "") throw new Error(`the reading process ended without an answer: ${problems.slice(0, 2_000)}`);
  return JSON.parse(output) as Counts;
}
