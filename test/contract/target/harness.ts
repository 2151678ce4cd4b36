import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { Client } from "#client/client.ts";
import type { ClientOptions } from "#client/client.ts";
import { RollcallError } from "#errors.ts";
import { startScripted } from "../../support/scripted-server.ts";
import type { ScriptedServer } from "../../support/scripted-server.ts";

const password = "s3cret-p4ssword";
export const defaultPassword = "f1rst-l0gin+%&";

/** What a test needs around a client; everything is removed after it. */
export interface Bench {
  /** Where an answer is to be written. */
  readonly destination: string;
  /** What the client said beside its errors. */
  readonly log: string[];
  readonly serve: (...script: Parameters<typeof startScripted>) => Promise<ScriptedServer>;
  readonly client: (url: string, options?: Partial<ClientOptions>) => Client;
  /** Writes a list of principals to a file. */
  readonly principals: (content?: string | Uint8Array) => Promise<string>;
  /** What the call throws. It may leave no file behind, and no secret may be in what was said. */
  readonly failure: (call: Promise<unknown>) => Promise<RollcallError>;
  /** The files of the test's folder. */
  readonly files: () => Promise<string[]>;
  readonly answer: () => Promise<string>;
}

export const soon = () => AbortSignal.timeout(30_000);

export async function bench(): Promise<Bench> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-target-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const destination = join(folder, "answer.json");
  const log: string[] = [];
  const files = async (): Promise<string[]> => (await readdir(folder)).filter((name) => name !== "principals.json");
  return {
    destination,
    log,
    files,
    serve: async (...script) => {
      const server = await startScripted(...script);
      onTestFinished(() => server.close());
      return server;
    },
    client: (url, options) =>
      new Client({
        name: "analytics",
        url,
        prefix: "",
        credentials: { username: "svc-rollcall", password },
        retries: { pause: 1, longest: 4 },
        log: (message) => log.push(message),
        ...options,
      }),
    principals: async (content = '[{"name":"ann"}]') => {
      const file = join(folder, "principals.json");
      await writeFile(file, content);
      return file;
    },
    failure: async (call) => {
      // At once: it may fail while the files are listed.
      const failed = call.then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      const before = await files();
      const error: unknown = await failed;
      expect(error).toBeInstanceOf(RollcallError);
      expect(await files()).toEqual(before.filter((name) => !name.endsWith(".partial")));
      const said = [String(error), ...log].join("\n");
      for (const secret of [password, defaultPassword, "s3ss10n"]) expect(said).not.toContain(secret);
      expect(said).toMatch(/^\w+Error: target analytics: /);
      return error as RollcallError;
    },
    answer: () => readFile(destination, "utf8"),
  };
}
