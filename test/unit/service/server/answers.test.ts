import { expect, test } from "vitest";
import { ReopeningError } from "#duckdb/connection.ts";
import { UnavailableError } from "#errors.ts";
import { authenticating, httpErrorOf } from "#service/server/answers.ts";

test("a database that is being opened again is a 503 that says when to try again, also where the caller is looked up", async () => {
  const reopening = new ReopeningError("later");
  expect(httpErrorOf(reopening, "1")).toMatchObject({
    status: 503,
    messages: ["later"],
    headers: { "retry-after": "5" },
  });
  await expect(authenticating(() => Promise.reject(reopening))).rejects.toBe(reopening);
  expect(httpErrorOf(new UnavailableError("later"), "1")).toMatchObject({ status: 503, headers: {} });
});
