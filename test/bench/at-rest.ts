/** `12.3 MB`, millions of bytes as the goals are, from 100 on without a fraction. */
export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 100e6 ? 1 : 0)} MB`;
}
