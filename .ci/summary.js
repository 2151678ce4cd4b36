// Sums up vitest's JSON reports: the slowest files, then the closing line `N passed, N failed[, N skipped]`.
import { readFileSync } from "node:fs";
import { basename, relative } from "node:path";

const print = (line) => process.stdout.write(`${line}\n`);
let [passed, failed, skipped] = [0, 0, 0];
const times = [];
for (const file of process.argv.slice(2)) {
  const report = JSON.parse(readFileSync(file, "utf8"));
  const command = basename(file, ".json");
  let [from, to] = [Infinity, 0];
  for (const { name, startTime, endTime, assertionResults } of report.testResults) {
    times.push([(endTime - startTime) / 1000, `${relative("", name)} (npm run ${command})`]);
    if (assertionResults.length > 0) [from, to] = [Math.min(from, startTime), Math.max(to, endTime)];
  }
  if (to > from) print(`npm run ${command}: ${((to - from) / 1000).toFixed(0)} s`);
  // A file that cannot be loaded or prepared fails without a test that failed.
  const broken = report.testResults.filter(
    ({ status, assertionResults }) => status === "failed" && assertionResults.every((test) => test.status !== "failed"),
  );
  passed += report.numPassedTests;
  failed += report.numFailedTests + broken.length;
  skipped += report.numPendingTests + report.numTodoTests;
}
print("The slowest files, in seconds:");
for (const [seconds, name] of times.sort(([a], [b]) => b - a).slice(0, 15))
  print(`${seconds.toFixed(1).padStart(7)}  ${name}`);
print(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
