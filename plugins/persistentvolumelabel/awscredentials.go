// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"fmt"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
)

// loadAWSCredentials reads the access key of a profile from a file. An error holds nothing of the
// file's content but names of profiles and settings.
func loadAWSCredentials(file, profile string) (awssdk.Credentials, error) {
	content, err := readSecret(file)
	if err != nil {
		return awssdk.Credentials{}, err
	}
	c, err := parseAWSCredentials(string(content), profile)
	if err != nil {
		return awssdk.Credentials{}, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// parseAWSCredentials reads the shared credentials file of AWS' own tools,
// https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html: profiles in brackets, each with
// lines of a name, an equals sign and a value; comments begin with # or ;. Settings that aren't
// keys are left alone.
//
// The SDK's own reader, in its package config, accepts lines that are wrong, and brings the clients
// of four more services into the program.
func parseAWSCredentials(content, profile string) (awssdk.Credentials, error) {
	var c awssdk.Credentials
	here, found := false, false
	number := 0
	for line := range strings.Lines(content) {
		number++
		// An indented line belongs to a nested setting of some other tool.
		if nested := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"); nested {
			continue
		}
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if header, ok := strings.CutPrefix(line, "["); ok {
			header, _, ok = strings.Cut(header, "]")
			if !ok {
				return awssdk.Credentials{}, fmt.Errorf("line %d: a profile's name needs brackets around it", number)
			}
			here = strings.TrimSpace(header) == profile
			found = found || here
			continue
		}
		setting, value, ok := strings.Cut(line, "=")
		if !ok {
			return awssdk.Credentials{}, fmt.Errorf("line %d: must be a name, an equals sign and a value", number)
		}
		if !here {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(setting)) {
		case "aws_access_key_id":
			c.AccessKeyID = value
		case "aws_secret_access_key":
			c.SecretAccessKey = value
		case "aws_session_token":
			c.SessionToken = value
		}
	}
	switch {
	case !found:
		return awssdk.Credentials{}, fmt.Errorf("has no profile [%s]", profile)
	case !isToken(c.AccessKeyID):
		return awssdk.Credentials{}, badSetting(profile, "aws_access_key_id")
	case !isToken(c.SecretAccessKey):
		return awssdk.Credentials{}, badSetting(profile, "aws_secret_access_key")
	case c.SessionToken != "" && !isToken(c.SessionToken):
		return awssdk.Credentials{}, badSetting(profile, "aws_session_token")
	}
	return c, nil
}

// badSetting returns the error for a setting that is missing or isn't a token.
func badSetting(profile, setting string) error {
	return fmt.Errorf("parsing the profile [%s]: want %s in printable ASCII without blanks", profile, setting)
}

// isToken reports whether text can be in a header as it is: printable ASCII without blanks.
func isToken(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
