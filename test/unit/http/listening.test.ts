import { expect, test } from "vitest";
import { isLoopback } from "#http/listening.ts";

test.each([
  "127.0.0.1",
  "127.255.1.2",
  "::1",
  "[::1]",
  "0:0:0:0:0:0:0:1",
  "::ffff:127.0.0.1",
  "[::ffff:7f00:1]",
  "localhost",
  "LOCALHOST",
])("%s is this machine", (host) => {
  expect(isLoopback(host)).toBe(true);
});

test.each([
  "",
  "0.0.0.0",
  "::",
  "128.0.0.1",
  "10.0.0.1",
  "::ffff:10.0.0.1",
  "::2",
  "fe80::1%eth0",
  "127.0.0.1.example.com",
  "localhost.example.com",
  "127.1",
  "127.0.0.256",
])("%s may be another one", (host) => {
  expect(isLoopback(host)).toBe(false);
});
