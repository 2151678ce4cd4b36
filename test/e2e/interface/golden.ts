import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { call } from "../../support/rollcall/service.ts";

/** A request and the answer it must get, as a fixture holds them. */
interface Golden {
  /** Begins with the number of what it holds the service to. */
  readonly name: string;
  readonly request: {
    readonly method: "GET" | "POST" | "PUT" | "DELETE" | "HEAD" | "OPTIONS";
    readonly path: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: string;
    /** Sent with the administrator's session. */
    readonly session?: boolean;
  };
  readonly response: {
    readonly status: number;
    /** A text between slashes is a pattern; null: the header is absent. */
    readonly headers?: Readonly<Record<string, string | null>>;
    /** A text, a pattern between slashes, or a JSON value whose texts may be patterns. */
    readonly body?: unknown;
  };
}

const fixtures = new URL("../../fixtures/interface/", import.meta.url);

/** Makes a test of every exchange in a fixture. */
export async function testGolden(fixture: string, service: () => { url: string; session: string }): Promise<void> {
  const exchanges = JSON.parse(await readFile(new URL(`${fixture}.json`, fixtures), "utf8")) as Golden[];
  test.each(exchanges)("$name", async ({ request, response }) => {
    const { url, session } = service();
    const answer = await call(url + request.path, {
      method: request.method,
      headers: request.headers ?? {},
      ...(request.body === undefined ? {} : { body: request.body }),
      ...(request.session === true ? { session } : {}),
    });
    const headers = Object.keys(response.headers ?? {});
    const body = typeof response.body === "object" ? (JSON.parse(answer.text) as unknown) : answer.text;
    expect({
      status: answer.status,
      headers: Object.fromEntries(headers.map((name) => [name, answer.headers[name] ?? null])),
      body,
    }).toEqual({
      status: response.status,
      headers: matcher(response.headers ?? {}),
      body: matcher(response.body ?? "/^/"),
    });
  });
}

function matcher(expected: unknown): unknown {
  if (typeof expected === "string") {
    return /^\/.+\/$/.test(expected) ? pattern(expected.slice(1, -1)) : expected;
  }
  if (Array.isArray(expected)) return expected.map(matcher);
  if (typeof expected !== "object" || expected === null) return expected;
  return Object.fromEntries(Object.entries(expected).map(([key, value]) => [key, matcher(value)]));
}

function pattern(source: string): unknown {
  return expect.stringMatching(new RegExp(source));
}
