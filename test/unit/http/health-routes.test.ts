import { fastify } from "fastify";
import { expect, test } from "vitest";
import { UnavailableError } from "#errors.ts";
import { addHealthRoutes } from "#http/health-routes.ts";
import type { HealthSettings } from "#http/health-routes.ts";

async function ready(settings: Partial<HealthSettings>): Promise<{ status: number; body: unknown; alive: number }> {
  const app = fastify();
  addHealthRoutes(app, { isStopping: () => false, probe: async () => undefined, probes: [], ...settings });
  const answer = await app.inject("/readyz");
  const { statusCode } = await app.inject("/healthz");
  await app.close();
  return { status: answer.statusCode, body: answer.json<unknown>(), alive: statusCode };
}

test("it is ready unless something prevents it", async () => {
  const answer = await ready({ probes: [() => undefined, async () => undefined] });
  expect(answer).toEqual({ status: 200, body: { status: "ready" }, alive: 200 });
});

test("all reasons why it is not ready are listed, and it is still alive", async () => {
  const probes = [
    () => "sync staff has not succeeded since 2026-11-20T10:00:00.000Z",
    async () => undefined,
    async () => "the journal is damaged",
    () => {
      throw new UnavailableError("the disk is full");
    },
    async () => {
      throw new Error("/var/lib/secret is not to be shown");
    },
  ];
  expect(await ready({ probes })).toEqual({
    status: 503,
    body: {
      status: "failing",
      reasons: [
        "sync staff has not succeeded since 2026-11-20T10:00:00.000Z",
        "the journal is damaged",
        "the disk is full",
        "a check failed",
      ],
    },
    alive: 200,
  });
});

test("a service that is stopping, or cannot serve, says that and no more", async () => {
  const probes = [() => "the journal is damaged"];
  expect(await ready({ probes, isStopping: () => true })).toMatchObject({ status: 503, body: { status: "stopping" } });
  const probe = () => Promise.reject(new Error("no users"));
  expect(await ready({ probes, probe })).toEqual({ status: 503, body: { status: "failing" }, alive: 200 });
});

test("a check that never answers is a reason, and does not hold the answer up", async () => {
  const never = () => new Promise<never>(() => undefined);
  expect(await ready({ probes: [never, () => "the journal is damaged"], patience: 20 })).toEqual({
    status: 503,
    body: { status: "failing", reasons: ["a check did not answer within 0.02 s", "the journal is damaged"] },
    alive: 200,
  });
  expect(await ready({ probe: never, patience: 20 })).toMatchObject({ status: 503, body: { status: "failing" } });
});
