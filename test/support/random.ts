import fc from "fast-check";

// Run before every test file: vitest.config.ts draws the seed, prints it, and takes it from the environment.
fc.configureGlobal({
  seed: Number(process.env["ROLLCALL_TEST_SEED"]),
  numRuns: cases(100),
  // To shrink a case that fails may take long: what has been found by then is reported, before the test's own limit would
  // report nothing and leave the property running beside the tests that follow.
  interruptAfterTimeLimit: cases(45_000),
  markInterruptAsFailure: true,
});

/**
 * How many cases a property tries: `count`, times ROLLCALL_TEST_RUNS in `npm run test:properties`. It is `numRuns` of
 * `fc.assert` where 100 are too slow or too few: `npm test` should spend no more than two seconds on a property.
 */
export function cases(count: number): number {
  return count * Number(process.env["ROLLCALL_TEST_RUNS"] ?? "1");
}

/** Every third of the points at which a process is killed; the seed says which. ROLLCALL_TEST_KILLS=all: every one. */
export function everyThird<Point>(points: readonly Point[]): Point[] {
  if (process.env["ROLLCALL_TEST_KILLS"] === "all") return [...points];
  return points.filter((_, index) => index % 3 === Number(process.env["ROLLCALL_TEST_SEED"]) % 3);
}

/** A number from 0 to below 1, from the seed. */
export function random(): number {
  const [value = 0] = fc.sample(fc.nat(0x7fff_fffe), {
    numRuns: 1,
    seed: (draws += 1) + Number(process.env["ROLLCALL_TEST_SEED"]),
  });
  return value / 0x7fff_ffff;
}

let draws = 0;
