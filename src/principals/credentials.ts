/** Attributes of directories that hold passwords or keys. */
const credentials = new Set(
  [
    "userPassword",
    "unicodePwd",
    "dBCSPwd",
    "ntPwdHistory",
    "lmPwdHistory",
    "supplementalCredentials",
    "ms-Mcs-AdmPwd",
    "msLAPS-Password",
    "msLAPS-PasswordHistory",
    "msLAPS-EncryptedPassword",
    "msLAPS-EncryptedPasswordHistory",
    "msDS-ManagedPassword",
    "msFVE-RecoveryPassword",
    "sambaNTPassword",
    "sambaLMPassword",
    "sambaPasswordHistory",
    "ipaNTHash",
    "krbPrincipalKey",
    "krbPwdHistory",
    "pwdHistory",
    "nspmPassword",
    "authPassword",
    "password",
    "passwordHash",
  ].map((name) => name.toLowerCase()),
);

/**
 * Whether an attribute of an entry holds a password, or what one can be found from. LDAP knows attributes by numbers and
 * with options, too: `2.5.4.35`, `userPassword;x-old`.
 */
export function isCredential(attribute: string): boolean {
  const [name = ""] = attribute.split(";");
  return credentials.has(name.toLowerCase()) || /^(?:oid\.)?\d+(?:\.\d+)+$/i.test(name);
}
