/** What `npm start`, the unit for systemd and the image set for a process that is mostly at rest. */
export const resting = {
  flags: ["--max-semi-space-size=2"],
  environment: { MALLOC_MMAP_THRESHOLD_: "1048576" },
} as const;

/** `12.3 MB`, millions of bytes as the goals are, from 100 on without a fraction. */
export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 100e6 ? 1 : 0)} MB`;
}
