//! What to try by hand while the demo serves: commands that work as they stand, in any other shell.

use std::net::SocketAddr;
use std::path::Path;

use super::stage::MODEL;

/// What the commands are about.
#[derive(Debug)]
pub(super) struct Invitation<'a> {
    pub(super) public: SocketAddr,
    pub(super) admin: SocketAddr,
    /// This program.
    pub(super) program: &'a Path,
    /// The policy that serves.
    pub(super) policy: &'a str,
    /// The folder with the source of all policies.
    pub(super) sources: &'a Path,
    /// The configuration that the router watches.
    pub(super) config: &'a Path,
    /// The policies folder that it watches.
    pub(super) policies: &'a Path,
    /// Where the components are that the demo built.
    pub(super) built: &'a Path,
}

impl Invitation<'_> {
    /// Steps, each with the commands for it.
    fn steps(&self) -> [(String, Vec<String>); 5] {
        let Self { public, admin, .. } = self;
        let file = format!("{}.wasm", self.policy);
        let [program, live] = [self.program, &self.policies.join(&file)].map(quoted);
        let [first, policies] = [&self.built.join(&file), self.policies].map(quoted);
        let source = self.sources.join(self.policy);
        let json = "-H 'content-type: application/json'";
        let messages = |text: &str| format!(r#""messages":[{{"role":"user","content":"{text}"}}]"#);
        [
            (
                "Ask as a client does, and see where it would go and what it would cost there:".to_owned(),
                vec![
                    format!(
                        "curl -N http://{public}/v1/chat/completions {json} -d '{{\"model\":\"{MODEL}\",\"stream\":true,{}}}'",
                        messages("hello")
                    ),
                    format!(
                        "curl http://{admin}/v1/route {json} -d '{{\"model\":\"{MODEL}\",{}}}'",
                        messages("where would this go?")
                    ),
                ],
            ),
            (
                "See which component decides, how it does, and what every worker carries:".to_owned(),
                vec![
                    format!("curl http://{admin}/v1/policies"),
                    format!("curl http://{admin}/v1/loads"),
                    format!("curl 'http://{admin}/v1/receipts?limit=3'"),
                ],
            ),
            (
                "Put the first version back; the digest in the second answer is its own again:".to_owned(),
                vec![
                    format!("cp {first} {live}"),
                    format!("curl -X POST http://{admin}/v1/policies/reload"),
                ],
            ),
            (
                format!("Change the policy's source ({}) and build it into the folder:", source.join("src/lib.rs").display()),
                vec![format!("{program} policy build {} --out {policies}", quoted(&source))],
            ),
            (
                "Put rubbish there; it is refused with the reason, and the last good version decides on:".to_owned(),
                vec![
                    format!("echo rubbish > {live}"),
                    format!("curl -X POST http://{admin}/v1/policies/reload"),
                ],
            ),
        ]
    }

    /// The whole of it.
    pub(super) fn text(&self) -> String {
        let mut text = "\nServing until Ctrl-C. To try, in another terminal:\n".to_owned();
        for (what, commands) in self.steps() {
            text += &format!("\n{what}\n");
            for command in commands {
                text += &format!("  {command}\n");
            }
        }
        text + &format!(
            "\nThe configuration is {}; it is watched too: a policy of your own is named there, with its parameters.\n\
             How to write one: \"A policy in twenty lines\" in README.md.",
            self.config.display()
        )
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=@%,:".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn invitation(folder: &Path) -> Vec<String> {
        let invitation = Invitation {
            public: SocketAddr::from(([127, 0, 0, 1], 1)),
            admin: SocketAddr::from(([127, 0, 0, 1], 2)),
            program: Path::new("true"),
            policy: "least-busy",
            sources: &folder.join("sources"),
            config: &folder.join("pointsman.yaml"),
            policies: &folder.join("policies"),
            built: &folder.join("built"),
        };
        invitation.steps().into_iter().flat_map(|(_, commands)| commands).collect()
    }

    #[test]
    fn the_commands_work_as_they_stand_whatever_the_folder_is_called() {
        let folder = tempfile::TempDir::with_prefix("a 'folder' of $HOME ").unwrap();
        for name in ["built", "policies"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("built/least-busy.wasm"), "first").unwrap();
        let live = folder.path().join("policies/least-busy.wasm");
        for command in invitation(folder.path()).iter().filter(|c| !c.starts_with("curl")) {
            let status = std::process::Command::new("sh").args(["-c", command]).status();
            assert!(status.unwrap().success(), "{command}");
            if command.starts_with("cp") {
                assert_eq!(std::fs::read_to_string(&live).unwrap(), "first");
            }
        }
        assert_eq!(std::fs::read_to_string(&live).unwrap(), "rubbish\n");
    }

    #[test]
    fn what_is_sent_is_json() {
        let commands = invitation(Path::new("/demo"));
        let bodies = commands.iter().filter_map(|command| command.split_once(" -d '"));
        let bodies: Vec<_> = bodies.map(|(_, body)| body.trim_end_matches('\'')).collect();
        assert_eq!(bodies.len(), 2);
        for body in bodies {
            serde_json::from_str::<serde_json::Value>(body).unwrap();
        }
    }
}
