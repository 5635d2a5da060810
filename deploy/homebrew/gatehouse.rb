# The formula for Homebrew. hack/manifests fills in the version and the checksums.
class Gatehouse < Formula
  desc "Kubernetes admission control as a system of its own"
  homepage "https://gatehouse.dev"
  license "Apache-2.0"

  on_macos do
    on_intel do
      url "https://github.com/gatehouse/gatehouse/releases/download/v@VERSION@/gatehouse_@VERSION@_darwin_amd64.tar.gz"
      sha256 "@darwin_amd64@"
    end
    on_arm do
      url "https://github.com/gatehouse/gatehouse/releases/download/v@VERSION@/gatehouse_@VERSION@_darwin_arm64.tar.gz"
      sha256 "@darwin_arm64@"
    end
  end

  on_linux do
    on_intel do
      url "https://github.com/gatehouse/gatehouse/releases/download/v@VERSION@/gatehouse_@VERSION@_linux_amd64.tar.gz"
      sha256 "@linux_amd64@"
    end
    on_arm do
      url "https://github.com/gatehouse/gatehouse/releases/download/v@VERSION@/gatehouse_@VERSION@_linux_arm64.tar.gz"
      sha256 "@linux_arm64@"
    end
  end

  def install
    bin.install "gatehouse"
    bin.install_symlink bin/"gatehouse" => "kubectl-gatehouse"
    bin.install_symlink bin/"gatehouse" => "kubectl_complete-gatehouse"
    bash_completion.install "completions/gatehouse.bash" => "gatehouse"
    zsh_completion.install "completions/_gatehouse"
    fish_completion.install "completions/gatehouse.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/gatehouse version")
  end
end
