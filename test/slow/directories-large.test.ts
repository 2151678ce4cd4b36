import { onTestFinished, expect, test } from "vitest";
import { provideGoogle } from "../contract/source/google-medium.ts";
import { readElsewhere } from "../contract/source/suite.ts";
import { largeGoogle } from "../support/google/large.ts";

// Directories in the cloud, made while they are asked for, and read by a process whose heap is too small to hold them.

const [users, groups] = [50_000, 1_000];
const heap = 32;

test("Google Workspace", async () => {
  const { folder, options, dispose } = await provideGoogle(largeGoogle(users, groups));
  onTestFinished(dispose);
  const module = new URL("../../connectors/google/index.ts", import.meta.url).href;
  expect(await readElsewhere({ module, options, folder }, heap)).toMatchObject({ user: users, group: groups });
});
