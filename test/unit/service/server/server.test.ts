import { expect, test } from "vitest";
import { acceptsGzip } from "#service/server/server.ts";

test.each([
  ["gzip", true],
  ["GZIP", true],
  ["x-gzip", true],
  ["br, gzip", true],
  ["gzip;q=0.1, br;q=1.0", true],
  ["gzip ; q = 0.5", true],
  ["*", true],
  ["identity, *;q=0.5", true],
  ["gzip, *;q=0", true],
  ["gzip;q=0", false],
  ["gzip;q=0.000", false],
  ["gzip;q=0, *", false],
  ["*;q=0", false],
  ["br", false],
  ["identity", false],
  ["", false],
  [undefined, false],
])("B.10 Accept-Encoding: %s", (header, accepted) => {
  expect(acceptsGzip(header)).toBe(accepted);
});
