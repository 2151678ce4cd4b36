import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";
import type { Configuration } from "#config/configuration.ts";
import { loadConfiguration } from "#config/load.ts";
import type { LoadOptions } from "#config/load.ts";
import type { BuiltInConnector, Connector } from "#connector.ts";
import { InputError } from "#errors.ts";

/** A connector with an option of every type; it reads nothing. */
export const connector: Connector = {
  name: "list",
  options: z.strictObject({
    entries: z.array(z.string()).optional(),
    atLeast: z.int().optional(),
    gzip: z.boolean().optional(),
    token: z.string().optional(),
    either: z.union([z.number(), z.string()]).optional(),
    server: z.strictObject({ host: z.string().min(1), port: z.number().max(65_535) }).optional(),
    mode: z.union([z.literal("all"), z.strictObject({ only: z.string(), depth: z.number() })]).optional(),
    auth: z
      .discriminatedUnion("by", [
        z.strictObject({ by: z.literal("key"), key: z.string() }),
        z.strictObject({ by: z.literal("none") }),
      ])
      .optional(),
  }),
  open: () => ({
    async *read() {
      yield [];
    },
  }),
};

/** What the file of a test has beside it, and around it. */
export interface Surroundings extends Partial<LoadOptions> {
  /** Further files of the folder. */
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
}

/** Loads a configuration from a folder of its own. `folder` is where that was. */
export async function load(
  text: string | Uint8Array,
  { files = {}, ...options }: Surroundings = {},
): Promise<{ configuration: Configuration; folder: string }> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-config-"));
  try {
    for (const [name, content] of Object.entries({ ...files, "rollcall.yaml": text })) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), content);
    }
    const configuration = await loadConfiguration(join(folder, "rollcall.yaml"), {
      connectors: [builtIn(connector)],
      environment: {},
      ...options,
    });
    return { configuration, folder };
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    const local = (line: string): string => line.replaceAll(`${folder}/`, "").replaceAll(folder, "FOLDER");
    throw new InputError(local(error.message), { problems: error.problems.map(local) });
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** The problems of a configuration that must not load. */
export async function problemsOf(text: string, surroundings: Surroundings = {}): Promise<readonly string[]> {
  return (await failure(text, surroundings)).problems;
}

/** The error of a configuration that must not load. */
export async function failure(text: string | Uint8Array, surroundings: Surroundings = {}): Promise<InputError> {
  try {
    await load(text, surroundings);
  } catch (error) {
    if (error instanceof InputError) return error;
    throw error;
  }
  throw new Error("the configuration loads");
}

/** A file that is valid as it stands: a sync `staff` from the source `corp` to the target `analytics`. */
export const valid = `service:
targets:
  analytics: embedded
sources:
  corp:
    connector: list
syncs:
  staff:
    from: [corp]
    to: analytics
    users:
      name: entry.uid
      displayName: entry.cn
`;

/** `valid` with further lines of the sync; the first of them is line 14. */
export function withSync(lines: string): string {
  return `${valid}${lines
    .split("\n")
    .map((line) => `    ${line}\n`)
    .join("")}`;
}

export function builtIn(connector: Connector): BuiltInConnector {
  return { name: connector.name, title: connector.name, load: async () => connector };
}
