// Sums up vitest's JSON reports: the slowest files of each, then the closing line `N passed, N failed[, N skipped]`.
import { readFileSync } from "node:fs";
import { basename, relative } from "node:path";

const print = (line) => process.stdout.write(`${line}\n`);
let [passed, failed, skipped] = [0, 0, 0];
for (const file of process.argv.slice(2)) {
  const report = JSON.parse(readFileSync(file, "utf8"));
  const times = report.testResults.map(({ name, startTime, endTime }) => [
    (endTime - startTime) / 1000,
    relative("", name),
  ]);
  print(`The slowest files of ${basename(file, ".json")}, in seconds:`);
  for (const [seconds, name] of times.sort(([a], [b]) => b - a).slice(0, 10))
    print(`${seconds.toFixed(1).padStart(7)}  ${name}`);
  // A file that cannot be loaded or prepared fails without a test that failed.
  const broken = report.testResults.filter(
    ({ status, assertionResults }) => status === "failed" && assertionResults.every((test) => test.status !== "failed"),
  );
  passed += report.numPassedTests;
  failed += report.numFailedTests + broken.length;
  skipped += report.numPendingTests + report.numTodoTests;
}
print(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
