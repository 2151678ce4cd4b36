import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { call, login, startService } from "../../support/rollcall/service.ts";
import type { Answer, TestService } from "../../support/rollcall/service.ts";
import { multipart, multipartType } from "./loading.ts";

interface Content {
  readonly schema: object;
  readonly examples: Readonly<Record<string, { readonly value: unknown }>>;
}

interface Operation {
  readonly operationId: string;
  readonly security?: readonly unknown[];
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly example?: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Content>> };
  readonly responses: Readonly<
    Record<string, { readonly headers?: object; readonly content?: Readonly<Record<string, Content>> }>
  >;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: object };
}

const place = new URL("../../../docs/interface/openapi.json", import.meta.url);
const sample = new URL("../../../config/sample/", import.meta.url);
const document = JSON.parse(await readFile(place, "utf8")) as Document;

/** Every example in the document's order, which is an order in which a client may call. */
const cases = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).flatMap(([method, operation]) => {
    const answers = Object.entries(operation.responses).flatMap(([status, { headers, content = {} }]) =>
      Object.entries(content).flatMap(([type, { schema, examples }]) =>
        Object.entries(examples).map(([name, { value }]) => ({
          name,
          value,
          status: Number(status),
          headers,
          type,
          schema,
        })),
      ),
    );
    const [type, body] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
    const requests =
      body === undefined ? answers.map(({ name }) => [name, undefined] as const) : Object.entries(body.examples);
    return requests.map(([name, example]) => ({
      title: `${operation.operationId}: ${name}`,
      path,
      method: method.toUpperCase(),
      operation,
      type,
      body: example?.value,
      answer: answers.find((answer) => answer.name === name),
    }));
  }),
);

let service: TestService;
let session: string;
/** The cycle that the first example of startLoad has begun; the document's example id stands for it. */
let cycle: string | undefined;

beforeAll(async () => {
  service = await startService({
    service: { tables: new URL("tables.sql", sample).pathname, pinboards: new URL("pinboards", sample).pathname },
  });
  session = await login(service.url);
});

afterAll(async () => {
  await service.stop();
});

test.each(cases)("$title", async ({ path, method, operation, type, body, answer: expected }) => {
  const { parameters = [] } = operation;
  const query = new URLSearchParams();
  const headers: Record<string, string> = {};
  for (const { name, in: where, example } of parameters) {
    if (where === "query" && example !== undefined) query.set(name, example);
    if (where === "header" && example !== undefined) headers[name] = example;
  }
  const url = `${service.url}${path.replace("{cycle_id}", cycle ?? "")}?${query.toString()}`;
  const send = (): Promise<Answer> =>
    call(url, {
      method,
      ...(operation.security?.length === 0 ? {} : { session }),
      headers: {
        ...headers,
        ...(type === undefined ? {} : { "content-type": type.startsWith("multipart") ? multipartType : type }),
      },
      ...(type === undefined ? {} : { body: bodyOf(type, body) }),
    });
  let answer = await send();
  // What a client does: it polls until the load is done (A.11).
  while (operation.operationId === "loadStatus" && !answer.text.includes('"DONE"')) answer = await send();

  expect(expected, "every request's example has an answer's example of the same name").toBeDefined();
  expect(answer.status, answer.text).toBe(expected?.status);
  if (answer.text !== "") expect(answer.headers["content-type"]).toContain(expected?.type);
  for (const name of Object.keys(expected?.headers ?? {})) expect(answer.headers).toHaveProperty([name.toLowerCase()]);
  validate(expected?.schema ?? {}, answer.text);
  const { value } = expected ?? {};
  if (typeof value === "string") expect(answer.text).toBe(value);
  else expect(JSON.parse(answer.text)).toEqual(alike(value));

  if (operation.operationId === "startLoad") cycle ??= (JSON.parse(answer.text) as { cycle_id: string }).cycle_id;
});

test("the examples of answers are what their schemas say, and every operation has one", () => {
  for (const methods of Object.values(document.paths)) {
    for (const { operationId, responses } of Object.values(methods)) {
      const contents = Object.values(responses).flatMap(({ content = {} }) => Object.values(content));
      const examples = contents.flatMap(({ schema, examples }) =>
        Object.values(examples).map(({ value }) => ({ schema, value })),
      );
      expect(examples.length, operationId).toBeGreaterThan(0);
      for (const { schema, value } of examples) {
        validate(schema, typeof value === "string" ? value : JSON.stringify(value));
      }
    }
  }
});

/** Matches what is the example but for ids, times and counts; a list may have more. */
function alike(value: unknown): unknown {
  if (Array.isArray(value)) {
    const isOfObjects = value.some((each) => typeof each === "object" && !Array.isArray(each));
    return isOfObjects ? expect.arrayContaining(value.map(alike)) : value;
  }
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [key, key === "port" ? expect.any(Number) : alike(each)]),
    );
  }
  if (typeof value === "number") return value > 1e12 ? expect.any(Number) : value;
  if (typeof value !== "string") return value;
  if (/^\d+$/.test(value)) return expect.stringMatching(/^\d+$/);
  return /^[\da-f]{8}-[\da-f-]{27}$/.test(value) ? expect.stringMatching(/^[\da-f-]{36}$/) : value;
}

function bodyOf(type: string, value: unknown): string | Buffer {
  if (type === "application/json") return JSON.stringify(value);
  if (type.startsWith("multipart")) return multipart({ data: (value as { file: string }).file });
  return new URLSearchParams(value as Record<string, string>).toString();
}

/** A text is its own value; everything else is JSON, whatever its content type (A.25). */
function validate(schema: object, text: string): void {
  const value: unknown = "type" in schema && schema.type === "string" ? text : JSON.parse(text);
  const { schemas } = document.components;
  const whole = { ...(inPlace(schema) as object), $defs: inPlace(schemas) } as Parameters<typeof z.fromJSONSchema>[0];
  z.fromJSONSchema(whole).parse(value);
}

/** The same schema with its references into a document of its own. */
function inPlace(schema: unknown): unknown {
  return JSON.parse(JSON.stringify(schema).replaceAll("#/components/schemas/", "#/$defs/"));
}
