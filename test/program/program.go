// Package program builds gatehouse-webhook for tests as it is built for an image.
package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Name is the program's file name, in an image's root as elsewhere.
const Name = "gatehouse-webhook"

// Build builds it into a directory, and is its path.
func Build(ctx context.Context, dir string) (string, error) {
	// In its own module, so that whoever builds it builds the same.
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "gatehouse.dev").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	file := filepath.Join(dir, Name)
	cmd := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(module)), "-trimpath",
		"-tags=grpcnotrace", "-ldflags=-s -w", "-o", file, "./cmd/gatehouse-webhook")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", Name, err, output)
	}
	return file, nil
}
