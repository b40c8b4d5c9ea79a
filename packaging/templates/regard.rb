# Homebrew: a tap's Formula/regard.rb.
class Regard < Formula
  desc "See attention computed: every matrix on the way as a heatmap"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "@DOWNLOAD@/regard-@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@SHA256:regard-@VERSION@-aarch64-apple-darwin.tar.gz@"
    end
    on_intel do
      url "@DOWNLOAD@/regard-@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@SHA256:regard-@VERSION@-x86_64-apple-darwin.tar.gz@"
    end
  end
  on_linux do
    on_arm do
      url "@DOWNLOAD@/regard-@VERSION@-aarch64-unknown-linux-gnu.tar.gz"
      sha256 "@SHA256:regard-@VERSION@-aarch64-unknown-linux-gnu.tar.gz@"
    end
    on_intel do
      url "@DOWNLOAD@/regard-@VERSION@-x86_64-unknown-linux-gnu.tar.gz"
      sha256 "@SHA256:regard-@VERSION@-x86_64-unknown-linux-gnu.tar.gz@"
    end
  end

  def install
    bin.install "regard"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/regard.bash" => "regard"
    zsh_completion.install "completions/_regard"
    fish_completion.install "completions/regard.fish"
  end

  test do
    assert_match "0.98", shell_output("#{bin}/regard predict story --top 1 --text 'Mary and John went to the store. John had a cold drink. John gave the drink to'")
  end
end
