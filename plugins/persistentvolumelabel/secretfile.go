// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"fmt"
	"io"
	"os"
)

// maxSecret bounds a file of secrets, in bytes.
const maxSecret = 1 << 20

// readSecret returns the content of a file that only its owner may read or change.
func readSecret(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); !mode.IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	} else if mode.Perm()&0o077 != 0 {
		return nil,
			fmt.Errorf("%s has mode %04o: it holds secrets, so nobody but its owner may have access (chmod 600)", path,
				mode.Perm())
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxSecret {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxSecret)
	}
	return content, nil
}
