import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    files: ["app.js", "lib/**/*.js", "parts/**/*.js", "pages/**/*.js"],
    languageOptions: { globals: globals.browser },
    rules: {
      // What a message contains is text: nothing may turn a string into markup or code.
      "no-restricted-properties": [
        "error",
        ...["innerHTML", "outerHTML", "insertAdjacentHTML"].map(property => ({
          property,
          message: "Render it as text.",
        })),
      ],
      "no-restricted-syntax": [
        "error",
        { selector: "Property[key.name='dangerouslySetInnerHTML']", message: "Render it as text." },
      ],
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "max-lines": ["error", 400],
      eqeqeq: "error",
    },
  },
];
